"""Where a function of one variable changes sign, between two points with different signs."""

from __future__ import annotations

from collections.abc import Callable

#: An end of an interval, and the value there.
End = tuple[float, float]

#: Most steps: twice as many as bisection alone would take for 53 bits.
MOST = 106


def crossing(
    f: Callable[[float], float],
    a: End,
    b: End,
    *,
    absolute: float = 0.0,
    relative: float = 2.0**-51,
) -> float:
    """The better end of an interval that contains a change of sign and is at most ``absolute +
    relative |x|`` long. The next point comes from inverse quadratic interpolation if the last three
    points ensure that it stays in the interval. Otherwise it is the middle (Chandrupatla 1997,
    *Advances in Engineering Software* 28, 145-149).

    Raises ``ValueError`` for ends of the same sign.

    >>> round(crossing(lambda x: x * x - 2, (0.0, -2.0), (2.0, 2.0)), 12)
    1.414213562373"""
    if a[1] * b[1] > 0:
        raise ValueError(f"the signs at {a[0]} and {b[0]} are the same")
    part = 0.5
    for _ in range(MOST):
        best, length = min(a, b, key=lambda point: abs(point[1])), abs(b[0] - a[0])
        goal = absolute + relative * abs(best[0])
        if best[1] == 0 or length <= goal:
            break
        least = goal / length / 2
        x = a[0] + min(max(part, least), 1 - least) * (b[0] - a[0])
        new = (x, f(x))
        a, b, c = (new, b, a) if (new[1] > 0) == (a[1] > 0) else (new, a, b)
        part = _part(a, b, c)
    return min(a, b, key=lambda point: abs(point[1]))[0]


def _part(a: End, b: End, c: End) -> float:
    """How far to go from ``a`` to ``b``, as a fraction; ``c`` is the point before."""
    (x, u), (y, v), (z, w) = a, b, c
    where, value = (x - y) / (z - y), (u - v) / (w - v)
    if value**2 < where and (1 - value) ** 2 < 1 - where:
        return u / (v - u) * w / (v - w) + (z - x) / (y - x) * u / (w - u) * v / (w - v)
    return 0.5
