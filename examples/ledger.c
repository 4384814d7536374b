/* Two accounts whose sum never changes: transactions move money between them, and the process is
 * killed in the middle of one. The next process that opens the accounts finds all the money.
 *
 *   cc examples/ledger.c -lpenstock && ./a.out            a pool in /dev/shm, removed at the end
 *   PENSTOCK_POOL=/var/lib/pool ./a.out                   a pool that also outlives its hosts
 */
#include <penstock/persist.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { accounts = 2, whole = 1000, moves = 200 };

static void must(penstock_status_t status) {
  if (status == PENSTOCK_OK) return;
  fprintf(stderr, "ledger: %s\n", penstock_last_error());
  exit(1);
}

/* Moves one unit between the accounts, again and again; is killed in the last transaction. */
static void move_money(const char* spec) {
  penstock_pool_t* pool;
  penstock_object_t* ledger;
  penstock_undo_log_t* log;
  must(penstock_pool_attach(spec, NULL, &pool));
  must(penstock_arena_open(pool, "ledger", &ledger));
  must(penstock_undo_log_open(pool, 0, &log));
  int64_t* money = penstock_object_data(ledger);
  for (int i = 0; i < moves; ++i) {
    must(penstock_tx_begin(log));
    must(penstock_tx_add(log, ledger, 0, accounts * sizeof *money)); /* before the change */
    money[0] -= 1;
    if (i == moves - 1) {
      must(penstock_publish(pool, money,
                            sizeof *money)); /* every process can see this half of the change */
      kill(getpid(), SIGKILL);
    }
    money[1] += 1;
    must(penstock_tx_commit(log));
  }
}

static int check(const char* spec) {
  penstock_pool_t* pool;
  penstock_object_t* ledger;
  int64_t money[accounts];
  uint64_t version;
  must(penstock_pool_attach(spec, NULL,
                            &pool)); /* undoes the dead process's unfinished transaction */
  must(penstock_arena_open(pool, "ledger", &ledger));
  must(penstock_tx_read(ledger, money, 0, sizeof money, 0, &version));
  const int right = money[0] == whole - (moves - 1) && money[0] + money[1] == whole;
  printf("ledger: %s: %lld and %lld\n", right ? "ok" : "WRONG", (long long)money[0],
         (long long)money[1]);
  must(penstock_arena_destroy(ledger));
  penstock_pool_detach(pool);
  return right ? 0 : 1;
}

int main(void) {
  char spec[64];
  const char* named = penstock_default_spec();
  const int temporary = named[0] == '\0';
  if (temporary)
    must(penstock_pool_create_temporary(2, spec, sizeof spec));
  else
    snprintf(spec, sizeof spec, "%s", named);
  penstock_pool_t* pool;
  penstock_object_t* ledger;
  must(penstock_pool_attach(spec, NULL, &pool));
  penstock_object_options_t options = {.struct_bytes = sizeof options};
  options.lifetime = penstock_pool_durability(pool) == PENSTOCK_DURABILITY_NONE
                         ? PENSTOCK_LIFETIME_POOL
                         : PENSTOCK_LIFETIME_PERSISTENT;
  must(penstock_arena_create(pool, "ledger", accounts * sizeof(int64_t), &options, &ledger));
  const int64_t money[accounts] = {whole, 0};
  must(penstock_write(pool, penstock_object_data(ledger), money, sizeof money));
  penstock_arena_close(ledger);
  penstock_pool_detach(pool);
  const pid_t child = fork();
  if (child == 0) {
    move_money(spec);
    exit(1);
  }
  waitpid(child, NULL, 0);
  const int wrong = check(spec);
  if (temporary) must(penstock_pool_remove(spec, 1));
  return wrong;
}
