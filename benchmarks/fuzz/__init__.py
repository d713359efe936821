"""Input that somebody altered: every case must end in a correct run or in a clean refusal (``python -m benchmarks.fuzz``)."""
