"""Signs of formulas, and what TeX calls them."""

from __future__ import annotations

GREEK = dict(
    zip(
        "αβγδεζηθκλμνξπρσςτφχψωΓΔΘΛΞΠΣΥΦΨΩϑϱℓ∇∞∅★",
        (
            *("alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu"),
            *("xi", "pi", "rho", "sigma", "varsigma", "tau", "varphi", "chi", "psi", "omega", "Gamma", "Delta"),
            *("Theta", "Lambda", "Xi", "prod", "sum", "Upsilon", "Phi", "Psi", "Omega", "vartheta", "varrho", "ell"),
            *("nabla", "infty", "emptyset", "star"),
        ),
        strict=True,
    )
)
LETTERS = {
    "𝒜": r"\mathcal{A}",
    "𝒮": r"\mathcal{S}",
    "𝓘": r"\mathcal{I}",
    "ℰ": r"\mathcal{E}",
    "ℝ": r"\mathbb{R}",
    "ĝ": r"\hat{g}",
    "ḡ": r"\bar{g}",
    "ȳ": r"\bar{y}",
    "ū": r"\bar{u}",
    "Ã": r"\tilde{A}",
    "½": r"\tfrac{1}{2}",
    "…": r"\dots",
    **{sign: f"\\{name}" for sign, name in GREEK.items()},
}
MARKS = {"\u0303": "tilde", "\u0304": "bar", "\u0302": "hat"}
BELOW = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
ABOVE = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True)) | {"ᵀ": r"\top"}
RELATIONS = {
    ":=": ":=",
    "=:": "=:",
    "=": "=",
    "≤": r"\le",
    "≥": r"\ge",
    "<": r"\lt",
    ">": r"\gt",
    "≠": r"\ne",
    "≈": r"\approx",
    "≪": r"\ll",
    "≫": r"\gg",
    "∈": r"\in",
    "∉": r"\notin",
    "⊂": r"\subset",
    "⪰": r"\succeq",
    "⪯": r"\preceq",
    "∼": r"\sim",
    "∝": r"\propto",
    "→": r"\to",
    "←": r"\leftarrow",
    "↦": r"\mapsto",
    "⟺": r"\iff",
}
BINARY = {
    "+": "+",
    "−": "-",
    "·": r"\cdot",
    "×": r"\times",
    "±": r"\pm",
    "∓": r"\mp",
    "∩": r"\cap",
    "∪": r"\cup",
    "∖": r"\setminus",
}
BRACKETS = {
    "(": (")", "(", ")"),
    "[": ("]", "[", "]"),
    "{": ("}", r"\lbrace", r"\rbrace"),
    "⟨": ("⟩", r"\langle", r"\rangle"),
    "⌈": ("⌉", r"\lceil", r"\rceil"),
    "⌊": ("⌋", r"\lfloor", r"\rfloor"),
    "‖": ("‖", r"\lVert", r"\rVert"),
    "|": ("|", r"\lvert", r"\rvert"),
}
KNOWN = {"max", "min", "log", "exp", "ln", "sup", "cos", "Pr"}
"""Functions that TeX knows."""
NAMED = {"tr", "Var", "Cov", "Bin", "KL", "rank", "dist", "diag", "lb", "median"}
FUNCTIONS = KNOWN | NAMED
PRODUCTS = {"tn", "tK", "tR", "nR", "dK", "xS", "yS", "PY", "Pu", "Pg", "Pw", "HN", "HL", "GH", "Gt", "ij", "vv", "nd"}
PRODUCTS |= {"kt", "dt", "rx", "ru"}
"""Products of letters that are not to be taken for words."""
SHORT = {
    "is",
    "if",
    "in",
    "of",
    "at",
    "as",
    "by",
    "to",
    "or",
    "on",
    "no",
    "so",
    "be",
    "we",
    "it",
    "an",
    "up",
    "do",
    "he",
}
WITHIN = {
    "past",
    "excess",
    "lo",
    "hi",
    "update",
    "error",
    "floor",
    "lower",
    "upper",
    "mean",
    "value",
    "scatter",
    "sign",
}
WITHIN |= {"mass", "sign"}
"""Words that formulas contain."""
