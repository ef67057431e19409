// SPDX-License-Identifier: Apache-2.0
// The sections of the memory and transfer study: a question, a chart and the sentence that answers it.
#include "reports/sections.h"
#include "reports/studies.h"

namespace duet::reports {

void add_studies(const Analysis& analysis, Document& document) {
  for (const Study& study : analysis.studies) {
    Section& section = document.sections.emplace_back(Section{"Study: " + study.name, {}});
    section.blocks.push_back({Text{plain(study.question)}});
    section.blocks.push_back({Figures{{study_chart(study)}}});
    section.conclusion = study.sentence;
  }
}

}  // namespace duet::reports
