"""The best shares of a budget, with a proof that they are the best.

The variance that a measurement saves is a function of the plan and of public structure alone. A
*model* gives the variance of every requested estimate (:mod:`das.design.model`). For a tree known
only by its numbers of units it has a closed form (:mod:`das.design.homogeneous`); for a real tree
it is exact (:mod:`das.design.recursion`). It covers all cells that the tree's structures allow, or
those that an earlier release has (:mod:`das.design.tree`). :mod:`das.design.optimize` finds the
shares and bounds what any others could reach; :mod:`das.design.optimize` makes fractions of them.

Nothing here reads a record."""
