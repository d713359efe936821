"""How far the published numbers are from the truth: confidential, because errors depend on the truth."""

from das.evaluate.accuracy import EstimateSource, Headline, Published, evaluate, headline
from das.evaluate.comparison import compared, paired, summary
from das.evaluate.impossible import impossible
from das.evaluate.tables import evaluate_tables
from das.evaluate.two import differences, errors_of_two
from das.model.error_rows import CLASSES

__all__ = ["CLASSES", "EstimateSource", "Headline", "Published", "compared", "differences", "errors_of_two", "evaluate",
           "evaluate_tables", "headline", "impossible", "paired", "summary"]  # fmt: skip
