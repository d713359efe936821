"""The least coarsening on the risk-utility map: real persons, as a study of protection methods attacks
them (docs/how-to/coarsening.md).

*rhode-island*: the blocks of the redistricting file of 2010, with towns as a level. *tracts*: the persons
of 28 tracts, from the published tables of 2010. *guernsey*: those of Guernsey County, Ohio, as :mod:`das`
reconstructs them from its published block tables."""
