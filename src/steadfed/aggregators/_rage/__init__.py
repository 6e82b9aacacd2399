"""RAGE, Algorithm 2 of the paper: the class, its five modes, and the certificate.

`rule` is the class, `deciding` what each mode makes of a Gram matrix; `filtering` is the weighted-mean filter,
`displacement` where mode "auto" leaves its path, with the `guard` and the `anchor` as evidence; `exact` is
Algorithm 2, its line 3 `solved` (mode "exact") or `decided` (mode "lazy"), with `saddle`, `responses` and `simplex`
below them and `point` for what a reader sees; `constants` holds what is proved before any data, `certificate` what is
proved about one update, `rounding` what finite precision adds to it.
"""
