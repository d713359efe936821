"""How far the published numbers are from the truth: confidential, because errors depend on the truth."""

from das.evaluate.accuracy import CLASSES, Headline, evaluate, headline

__all__ = ["CLASSES", "Headline", "evaluate", "headline"]
