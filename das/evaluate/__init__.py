"""How far the published numbers are from the truth: confidential, because errors depend on the
truth.
"""

from das.evaluate.accuracy import (
    EstimateSource,
    Headline,
    Published,
    QueryTally,
    headline,
    tally_queries,
)
from das.evaluate.comparison import compared, paired, summary
from das.evaluate.impossible import impossible
from das.evaluate.tables import TableTallies, Whole, tally_tables
from das.evaluate.tallies import Tallies, UniverseTallies
from das.evaluate.two import differences, errors_of_two
from das.model.error_rows import CLASSES

__all__ = [
    "CLASSES",
    "EstimateSource",
    "Headline",
    "Published",
    "QueryTally",
    "TableTallies",
    "Tallies",
    "UniverseTallies",
    "Whole",
    "compared",
    "differences",
    "errors_of_two",
    "headline",
    "impossible",
    "paired",
    "summary",
    "tally_queries",
    "tally_tables",
]
