"""Input files. A format of records is a module with ``read`` (``pl94_2010``, ``pl94_2020``,
``ext1940``, ``ppmf``, ``table``). ``formats`` has what a statement says of each, and is what our
entry points name; ``registry`` finds a format by its name.

``source`` opens archives and splits text for all of them. ``pl94_common`` and ``pl94_records`` hold
what the redistricting files share; ``sf1_group_quarters`` reads the file that accompanies them.
``ppmf_persons`` counts published microdata, which are public, for ``ppmf`` and for replicates of
them (``ppmf_replicates``). ``area_list``, ``boundaries`` and ``profile`` read other files than
records; ``das init`` guesses a configuration from ``profile``."""
