/* The batch library from C: its header is C, and its refusals have words. */
#include <stdio.h>
#include <string.h>

#include <harness/batch/c_api.h>

int main(void) {
  if (assay_api_version() != ASSAY_BATCH_API) return 1;
  if (assay_open("/no/such/cell") != NULL) return 2;
  printf("%s\n", assay_last_error());
  return strlen(assay_last_error()) > 10 ? 0 : 3;
}
