"""`penstock bench`: runs the papers' measurements and our own, with their baselines in the same run.

`penstock bench list` names the experiments, `penstock bench run [EXPERIMENT…] --report DIR` runs them and leaves
DIR/results.json (penstock.bench.model), results.csv and a page. docs/bench.md says what each measures.
"""
