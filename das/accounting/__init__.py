"""From rho to (epsilon, delta), and the privacy statement of a release."""

from das.accounting.zcdp import bun_steinke, implied, tight

__all__ = ["bun_steinke", "implied", "tight"]
