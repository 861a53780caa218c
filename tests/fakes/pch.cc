// Holds the precompiled GoogleTest header that the test programs reuse.
