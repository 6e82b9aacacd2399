"""What Data & Diggavi 2020 states, by the labels of its LaTeX source: an inventory, in words of our own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A remark, footnote or claim in running text."""

    name: str
    """What it is called on the map."""
    place: str
    """In which section it stands."""
    says: str


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PLACES = _words("""
sec:intro subsec:related-work subsec:our-contributions sec:problem-setup_results subsec:assumptions subsec:main-results
sec:important-remarks sec:robust-grad-est subsec:matrix-concentration subsec:robust-grad-est_algo sec:convex_convergence
sec:nonconvex_convergence sec:convergence_full-batch-GD app:remaining_part1-robust-grad app:convex_convergence
app:convergence_full-batch-GD app:convex-GD_convergence app:nonconvex-GD_convergence
""")
"""Labels of sections, which state nothing by themselves."""

STATEMENTS = _words("""
problem-expression assump:bounded_local-variance bounded_local-variance bigger_set same_mean reduced_variance
assump:gradient-dissimilarity bounded_local-global foot:RAGE-vs-RME algo:Byz-Local-SGD thm:LocalSGD_convergence
convex_convergence_rate nonconvex_convergence_rate thm:full-batch-GD convex-GD_convergence_rate
nonconvex-GD_convergence_rate thm:gradient-estimator mat-concen_gradient-estimator lem:subset_variance
distr-Yij_proof-matrix-concen-app claim:reduced_variance_H-iters-app bounded_subset_variance-app
alternate-defn_max-eigenvalue bounded_subset_variance_2-app remaining_part1-robust-grad11-app
claim:local-global-expectation-app local-global-expectation-bound-app local-global-expectation2-app1
local-global-expectation2-app local-global-expectation5-app remaining_part1-robust-grad13-app
lem:bounded_local-global-params-app bounded_local-global-params-bound-app bounded_local-global-params-app-1
bounded_local-global-params-app-3 remaining_part1-robust-grad15-app algo:robust-grad-est saddle-point-opt
cost-function_defn tau-defn lem:poly-time_grad-est convex_local-0 convex_local-01 convex_local-1 eq:inner-product-trick
convex_local-2 claim:convex_first-term convex_first-term-bound claim:convex_second-term convex_second-term-bound
claim:convex_third-term convex_third-term-bound convex_local-15 convex_local-155 convex_local-16 convex_local-17
convex_local-175 convex_local-18 convex_local-19 nonconvex_local-1 nonconvex_local-2 nonconvex_local-31
nonconvex_local-4 nonconvex_local-55 nonconvex_local-6 nonconvex_local-8 nonconvex_local-85 nonconvex_local-9
nonconvex_local-10 nonconvex_local-11 nonconvex_local-12 thm:gradient-estimator_GD gradient-estimator_GD-0
gradient-estimator_GD-1 gradient-estimator_GD-2 lem:bounded_local-global-params_GD bounded_local-global-params_GD-bound
gradient-estimator_GD-3 convex_first-term-1 convex_first-term-2 convex_second-term-interim1 convex_local-5
convex_local-6 convex_local-65 convex_local-7 convex_local-8 fact:Smooth_gradient-bound convex-GD_local-2
convex-GD_local-3 convex-GD_local-4 convex-GD_local-5 convex-GD_local-6 convex-GD_local-7 convex-GD_local-8
convex-GD_local-9 convex-GD_local-10 nonconvex-GD_local-1 nonconvex-GD_local-3 nonconvex-GD_local-4 nonconvex_local-5
nonconvex-GD_local-6 nonconvex-GD_local-7 nonconvex-GD_local-8 nonconvex-GD_local-9
""")
"""Labels of assumptions, algorithms, theorems, lemmas, claims, facts and displayed formulas."""

STATISTICS = "bounds-on-and-in-the-statistical-heterogeneous-model"

REMARKS = (Entry("Remark 1", "subsec:main-results", "Byzantine clients matter at synchronisations only"),)

FOOTNOTES = (
    Entry("footnote 1", "subsec:related-work", "another algorithm errs by the square of diameter and gradient bound"),
    Entry("footnote 2", "subsec:related-work", "where bounded gradients are criticised"),
    Entry("footnote 3", "adversary-model", "a quarter of a cohort; the share of all clients is the worst case"),
    Entry("footnote 4", "subsec:main-results", "where the filter comes from"),
    Entry("footnote 5", "subsec:matrix-concentration", "dissimilarity is bounded at random models, too"),
    Entry("footnote 6", "subsec:matrix-concentration", "so is the variance"),
)

CLAIMS = (
    Entry("text 1", "subsec:related-work", "bounded gradients bound the dissimilarity"),
    Entry("text 2", "subsec:our-contributions", "order of the floor"),
    Entry("text 3", "subsec:our-contributions", "speed in rounds, not steps"),
    Entry("text 4", "subsec:our-contributions", "speed in steps if gradients are bounded"),
    Entry("text 5", "subsec:assumptions", "variance of a batch without replacement"),
    Entry("text 6", "need-of", "drift needs bounded heterogeneity"),
    Entry("text 7", STATISTICS, "variance of sampled data"),
    Entry("text 8", STATISTICS, "dissimilarity of sampled data, and how many points it needs"),
    Entry("text 9", "adversary-model", "share of Byzantine clients that is tolerated"),
    Entry("text 10", "adversary-model", "clients that send nothing"),
    Entry("text 11", "subsec:main-results", "no assumption about single clients' losses"),
    Entry("text 12", "subsec:main-results", "two definitions of smoothness"),
    Entry("text 13", "subsec:main-results", "failure probability in T and K; none with full batches"),
    Entry("text 14", "sec:important-remarks", "two parts of the floor"),
    Entry("text 15", "sec:important-remarks", "heterogeneity is unavoidable"),
    Entry("text 16", "sec:important-remarks", "contraction as an exponential"),
    Entry("text 17", "sec:important-remarks", "speed of gradients"),
    Entry("text 18", "sec:important-remarks", "step size under bounded gradients"),
    Entry("text 19", "sec:robust-grad-est", "gaps between synchronisations"),
    Entry("text 20", "subsec:matrix-concentration", "sizes of subsets, rounding of constants"),
    Entry("text 21", "subsec:robust-grad-est_algo", "rows removed in a step, running time"),
    Entry("text 22", "sec:convex_convergence", "the floor and the step size"),
    Entry("text 23", "sec:convex_convergence", "elementary inequalities"),
    Entry("text 24", "sec:convex_convergence", "union over rounds, longest run"),
    Entry("text 24", "sec:nonconvex_convergence", "the same again"),
    Entry("text 25", "sec:nonconvex_convergence", "factors of the descent lemma"),
    Entry("text 26", "sec:convergence_full-batch-GD", "full batches deserve a theorem of their own"),
    Entry("text 27", "app:convex-GD_convergence", "constants of full batches, strongly convex"),
    Entry("text 28", "app:nonconvex-GD_convergence", "constants of full batches, otherwise"),
    Entry("text 29", "app:convex_convergence", "three terms of the decoding error"),
    Entry("text 30", "sec:intro", "definitions"),
    Entry("text 30", "notation", "definitions"),
)

PARAGRAPHS = (
    Entry("text 14", "sec:important-remarks", "what the floor consists of"),
    Entry("text 16", "sec:important-remarks", "rates, and what bounded gradients would change"),
    Entry("text 24", "sec:convex_convergence", "error probability"),
    Entry("text 24", "sec:nonconvex_convergence", "error probability"),
    Entry("text 29", "app:convex_convergence", "first term"),
    Entry("text 29", "app:convex_convergence", "second term"),
    Entry("text 29", "app:convex_convergence", "third term"),
)
"""Paragraphs with a heading of their own, in order, and the claim under which they are on the map."""

FORMULAS = {
    "sec:intro": 1,
    "subsec:related-work": 3,
    "subsec:our-contributions": 4,
    "notation": 1,
    "subsec:assumptions": 1,
    STATISTICS: 3,
    "adversary-model": 4,
    "subsec:main-results": 6,
    "sec:important-remarks": 10,
    "sec:robust-grad-est": 3,
    "subsec:matrix-concentration": 14,
    "subsec:robust-grad-est_algo": 2,
    "sec:convex_convergence": 36,
    "sec:nonconvex_convergence": 24,
    "sec:convergence_full-batch-GD": 10,
    "app:convex-GD_convergence": 23,
    "app:nonconvex-GD_convergence": 12,
}
"""How many formulas with a relation or an order were found in running text, by place; all were read."""
