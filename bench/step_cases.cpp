// Training steps as benchmark cases.
#include "bench/cases.h"

namespace duet::bench {

Cases step_cases(const Options&) { return {}; }

}  // namespace duet::bench
