"""The best shares of a budget, and the proof that they are.

What each measurement buys is a function of the plan and of public structure alone. A *model* says
with which variance everything that is asked for would be estimated (:mod:`das.design.model`): in
closed form for a tree of which only the numbers of units are known (:mod:`das.design.homogeneous`),
or exactly for a real one (:mod:`das.design.recursion`), over all that its structures allow or over
the cells that an earlier release has (:mod:`das.design.tree`). :mod:`das.design.optimise` finds the
shares and bounds what any others could reach; :mod:`das.design.exact` makes fractions of them.

Nothing here reads a record.
"""
