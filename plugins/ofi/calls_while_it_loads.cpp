// A library for lib_test.cpp: it calls the program that loads it.
extern "C" void called_while_loading();

__attribute__((constructor)) static void call() {
  called_while_loading();
}
