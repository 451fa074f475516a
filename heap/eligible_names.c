/* eligible_names.c: the words by which profiles name the rules.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/eligible.h"

const char *const eligible_names[ELIGIBLE_RULES] = {
    [ELIGIBLE] = "quarantined",   [RULE_EXOTIC] = "exotic",     [RULE_FREED_MEMORY] = "freed_memory",
    [RULE_CONTENTS] = "contents", [RULE_CONFIRMATIONS] = "confirmations", [RULE_AGE] = "age",
    [RULE_START] = "start",       [RULE_NO_PLACE] = "no_site",  [RULE_LIBRARY] = "library",
    [RULE_VETOED] = "vetoed",     [RULE_TRIAL] = "trial",       [RULE_GROUP] = "group",
    [RULE_BUDGET] = "budget",     [RULE_OFF] = "off",
};
