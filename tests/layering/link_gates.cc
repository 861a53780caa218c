// Pulls in the whole gates archive; that it links is the test (CMakeLists.txt).
int main() { return 0; }
