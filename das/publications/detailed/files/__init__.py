"""Folders of detailed tables of groups: parameters, records and geography as the programs of 2020
take them, and tables as they write them.

``config`` and ``parameters`` read what is decided before records are seen, ``geography`` the
blocks, ``totals`` what was published of groups, ``records`` the confidential records; ``output``
writes tables. ``delimited`` and ``columns`` cut texts, small ones and large ones, for all of them,
and ``faults`` collects what is wrong."""
