"""Which rows make up which batch: plan, shuffle, weighted sampling, ranks and the state of a resumed epoch."""
