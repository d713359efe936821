"""Protection methods on the same records and the same tables.

A table set (:mod:`das.protect.table_set`) says which lines an office publishes, level by level. A
method (:mod:`das.protect.method`) turns records (:mod:`das.protect.study_records`, confidential)
into protected tables (:mod:`das.protect.published`): what anybody may know of each line. An attack
(:mod:`das.risk.reconstruction`) sees nothing else."""
