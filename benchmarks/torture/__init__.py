"""Torture: what genius endures, counted. `make torture` runs it; docs/reliability.md has the figures.

A *scenario* (`scenario`) does one kind of harm: it kills writers, flips bits, fills disks. Its unit is a
*trial*, which a seed determines, so that every failure can be had again. Trials run in a *worker* (`worker`),
a process with bounded memory and time that may die alone; the *supervisor* (`supervisor`) hands out seeds and
counts what comes back; the *ledger* (`ledger`) adds the counts up over runs. `programme` lists all scenarios.
"""
