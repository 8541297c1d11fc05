"""Running: plans, interpreted programs, the choice between both, and the net and the judge below them."""
