"""Input files. A format of records is a module with ``read`` (``pl94_2010``, ``pl94_2020``,
``ext1940``, ``ppmf``, ``table``), found by its name in ``registry``; ``source`` opens archives and
splits text for all of them, ``pl94_common`` and ``pl94_records`` hold what the redistricting files
share, ``sf1_group_quarters`` reads what lies beside them. ``ppmf_persons`` counts published
microdata, which are no secret, for ``ppmf`` and for replicates of them (``ppmf_replicates``). Not
of records are ``area_list``, ``boundaries`` and ``profile`` (what ``das init`` guesses a
configuration from)."""
