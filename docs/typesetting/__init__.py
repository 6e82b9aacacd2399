r"""Formulas as docstrings have them, in Unicode, turned into TeX for KaTeX: `σ₀ √(f/K)` becomes `\sigma_0 \sqrt{f/K}`.

Docstrings stay legible in a terminal, and are typeset where the site shows them. Nothing is interpreted: every letter
and every sign of a formula has its counterpart in TeX, in the same order.
"""
