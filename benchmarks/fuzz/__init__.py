"""Input that somebody altered, small worlds, signals, machines short of something: every case must
end in a correct run or in a clean refusal (``python -m benchmarks.fuzz``)."""
