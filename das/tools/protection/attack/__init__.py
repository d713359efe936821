"""Database reconstruction: everybody's record from published tables, whatever protected them.

An attack sees protected tables (:mod:`das.tools.protection.published`) and nothing else. Source: U.S. Census
Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S. Census: Full
Technical Report (2025), section 4."""

from das.tools.protection.attack.attack import areas, reconstruct
from das.tools.protection.attack.result import AttackOptions, AttackStatus, Reconstruction

__all__ = ["AttackOptions", "AttackStatus", "Reconstruction", "areas", "reconstruct"]
