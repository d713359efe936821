"""Figures of single papers, made again with ``das``: no part of the library, run from a clone
(``python -m studies``).
"""
