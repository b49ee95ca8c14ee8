"""The colours of all figures."""

# The palette of Okabe and Ito, ordered so that the first lines differ most in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
