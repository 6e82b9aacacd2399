"""RAGE, Algorithm 2 of the paper: the class, its three modes, and the certificate.

    rule.py ── filtering.py   the weighted-mean filter (modes "known" and "auto")
            ├─ exact.py ── saddle.py   Algorithm 2 as printed (mode "exact")
            ├─ constants.py   what is proved before any data
            └─ certificate.py what is proved about one update
"""
