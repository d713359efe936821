"""Database reconstruction: everybody's record from published tables, whatever protected them.

An attack sees protected tables (:mod:`das.protect.published`) and nothing else. Source: U.S. Census
Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S. Census: Full
Technical Report (2025), section 4."""

from das.risk.reconstruction.attack import areas, reconstruct
from das.risk.reconstruction.options import AttackOptions
from das.risk.reconstruction.result import AttackStatus, Reconstruction

__all__ = ["AttackOptions", "AttackStatus", "Reconstruction", "areas", "reconstruct"]
