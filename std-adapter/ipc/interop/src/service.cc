// Perfetto's own service, which its C functions do not expose: so this is compiled in one file with it.
#include "perfetto_c.cc"

static_assert(sizeof(std::atomic<bool>) == sizeof(bool), "as the crate's Rust has it");

// Listens at both paths, reports that, and serves until the process ends. Returns if it cannot listen.
extern "C" void tracebuf_interop_serve(const char* producers, const char* consumers, void (*listens)()) {
  perfetto::base::UnixTaskRunner runner;
  auto host = perfetto::ServiceIPCHost::CreateInstance(&runner);
  if (!host->Start(producers, consumers)) return;
  listens();
  runner.Run();
}
