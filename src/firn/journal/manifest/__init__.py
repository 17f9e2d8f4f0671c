"""The manifest journal: one pointer object, compare-and-swapped, over immutable manifests and SSTs."""
