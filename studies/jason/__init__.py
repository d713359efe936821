"""JASON (2020), JSR-19-2F, *Formal privacy methods for the 2020 census*: the attack of Dinur and
Nissim.
"""
