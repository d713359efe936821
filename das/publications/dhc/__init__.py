"""The Demographic and Housing Characteristics File (DHC): persons, housing units and households."""
