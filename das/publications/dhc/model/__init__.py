"""The Demographic and Housing Characteristics file of 2020: persons, households, and units by
tenure, vacancy and type.

Source: the Bureau's production code of 2020 (DAS_2020_DHC_Production_Code, 38ea5f2: ``schemas.py``,
``hhtype_map.py``, the constraints, strategies and writers), the technical documentation of the
file, and its layout. Attributes and groupings have the names that they have there, and in the noisy
measurements that the Bureau published."""
