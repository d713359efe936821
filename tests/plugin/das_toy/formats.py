"""What a statement says of the toy's format of records."""

from das.plugins import Reader

TALLY = Reader("das_toy.tally", notes=("The records are a tally of each block.",), structures=False)
