"""RAGE, Algorithm 2 of the paper: the class, its three modes, and the certificate.

`rule` is the class; `filtering` the weighted-mean filter (modes "known" and "auto"); `exact` and `saddle` are
Algorithm 2 as printed (mode "exact"); `constants` holds what is proved before any data, `certificate` what is proved
about one update.
"""
