"""``whale doctor``: does what a configuration names work on this machine?

A check is a plain function of a ``Subject`` that returns a ``Finding``. ``examination.CHECKS``
lists them in order with what each needs of the ones before it; the other modules hold one group
each.
"""
