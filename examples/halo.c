/* Heat on a plate whose tiles exchange their edges by one-sided MPI: the neighbours put a ring of
 * cells (the halo) around each tile. An ordinary MPI program for any number of ranks.
 *
 *   mpicc -O2 examples/halo.c -o halo
 *   penstock run -n 4 --bind -- ./halo 512 512 200        rows, columns, steps
 *
 * Each rank has a window that holds only its halo, so that no rank stores to memory while others
 * put there: right in both memory models of MPI. Neighbours synchronize by post, start, complete
 * and wait; other ranks are not waited for. The fields are private.
 *
 * Prints what was computed, microseconds a step, and how many of them the exchange took. Each rank
 * also computes the whole plate by itself and compares its tile bit by bit. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum side { north, south, west, east, sides };
static const enum side opposite[] = {south, north, east, west};

/* A rectangle of the plate with a border of one cell: the halo, or the plate's fixed edge. */
struct field {
  long rows, columns;
  double* cells;
};

struct tile {
  long first_row, first_column;
  struct field now, next;
  int neighbour[sides]; /* MPI_PROC_NULL: the edge of the plate */
  MPI_Datatype edge[sides];
  MPI_Comm comm;
  MPI_Group neighbours;
  MPI_Win win;
  double* halo; /* a part for each side, which one neighbour writes */
  long part;    /* cells of such a part, the same on all ranks */
};

static double* at(const struct field* field, long row, long column) {
  return field->cells + (row + 1) * (field->columns + 2) + column + 1;
}

static void die(const char* what) {
  fprintf(stderr, "halo: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

/* Every cell differs, so that a misplaced one is noticed. */
static double initial(long row, long column) {
  return (double)((row * 7919 + column * 104729) % 1009) / 1009;
}

static struct field make_field(long rows, long columns, long first_row, long first_column) {
  struct field field = {rows, columns,
                        malloc((size_t)((rows + 2) * (columns + 2)) * sizeof(double))};
  if (!field.cells) die("no memory");
  for (long row = -1; row <= rows; ++row) {
    for (long column = -1; column <= columns; ++column) {
      *at(&field, row, column) = initial(first_row + row + 1, first_column + column + 1);
    }
  }
  return field;
}

static void update(const struct field* now, const struct field* next) {
  for (long row = 0; row < now->rows; ++row) {
    const double *up = at(now, row - 1, 0), *here = at(now, row, 0), *down = at(now, row + 1, 0);
    double* to = at(next, row, 0);
    for (long column = 0; column < now->columns; ++column) {
      const double around = (up[column] + down[column]) + (here[column - 1] + here[column + 1]);
      to[column] = here[column] + 0.2 * (around - 4 * here[column]);
    }
  }
}

static void swap(struct field* a, struct field* b) {
  const struct field kept = *a;
  *a = *b;
  *b = kept;
}

/* ---- the exchange ---- */

/* The first cell of the tile's own edge on this side (halo 0), or of the halo beside it (halo 1).
 */
static double* edge_of(const struct field* field, enum side side, int halo) {
  switch (side) {
    case north:
      return at(field, -halo, 0);
    case south:
      return at(field, field->rows - 1 + halo, 0);
    case west:
      return at(field, 0, -halo);
    default:
      return at(field, 0, field->columns - 1 + halo);
  }
}

static int edge_length(const struct field* field, enum side side) {
  return (int)(side == north || side == south ? field->columns : field->rows);
}

static void copy_halo_in(const struct tile* tile, enum side side) {
  const double* from = tile->halo + side * tile->part;
  double* to = edge_of(&tile->now, side, 1);
  const long apart = side == north || side == south ? 1 : tile->now.columns + 2;
  for (int i = 0; i < edge_length(&tile->now, side); ++i) to[i * apart] = from[i];
}

static void exchange(const struct tile* tile) {
  MPI_Win_post(tile->neighbours, 0, tile->win);
  MPI_Win_start(tile->neighbours, 0, tile->win);
  for (enum side side = north; side < sides; ++side) {
    if (tile->neighbour[side] == MPI_PROC_NULL) continue;
    /* a row of cells, or by its datatype a column, arrives as cells in a row */
    MPI_Put(edge_of(&tile->now, side, 0), 1, tile->edge[side], tile->neighbour[side],
            opposite[side] * tile->part, edge_length(&tile->now, side), MPI_DOUBLE, tile->win);
  }
  MPI_Win_complete(tile->win);
  MPI_Win_wait(tile->win);
  for (enum side side = north; side < sides; ++side) {
    if (tile->neighbour[side] != MPI_PROC_NULL) copy_halo_in(tile, side);
  }
}

/* ---- tiles ---- */

/* First cell, and number of cells, of this part among parts. */
static long share(long cells, int parts, int index, long* first) {
  const long size = cells / parts, longer = cells % parts;
  *first = index * size + (index < longer ? index : longer);
  return size + (index < longer);
}

static void group_neighbours(struct tile* tile) {
  MPI_Group all;
  int ranks[sides], count = 0;
  for (enum side side = north; side < sides; ++side) {
    if (tile->neighbour[side] != MPI_PROC_NULL) ranks[count++] = tile->neighbour[side];
  }
  MPI_Comm_group(tile->comm, &all);
  MPI_Group_incl(all, count, ranks, &tile->neighbours);
  MPI_Group_free(&all);
}

static struct tile make_tile(long rows, long columns, int dims[2]) {
  struct tile tile;
  int periods[2] = {0, 0}, place[2], ranks, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &tile.comm);
  MPI_Comm_rank(tile.comm, &rank);
  MPI_Cart_coords(tile.comm, rank, 2, place);
  MPI_Cart_shift(tile.comm, 0, 1, &tile.neighbour[north], &tile.neighbour[south]);
  MPI_Cart_shift(tile.comm, 1, 1, &tile.neighbour[west], &tile.neighbour[east]);
  group_neighbours(&tile);
  const long own_rows = share(rows, dims[0], place[0], &tile.first_row);
  const long own_columns = share(columns, dims[1], place[1], &tile.first_column);
  if (own_rows < 1 || own_columns < 1) die("more ranks than cells on a side");
  tile.now = make_field(own_rows, own_columns, tile.first_row, tile.first_column);
  tile.next = make_field(own_rows, own_columns, tile.first_row, tile.first_column);
  for (enum side side = north; side < sides; ++side) {
    if (side == north || side == south) {
      MPI_Type_contiguous((int)own_columns, MPI_DOUBLE, &tile.edge[side]);
    } else {
      MPI_Type_vector((int)own_rows, 1, (int)own_columns + 2, MPI_DOUBLE, &tile.edge[side]);
    }
    MPI_Type_commit(&tile.edge[side]);
  }
  const long tallest = (rows + dims[0] - 1) / dims[0], widest = (columns + dims[1] - 1) / dims[1];
  const long longest = tallest > widest ? tallest : widest;
  tile.part = (longest + 7) / 8 * 8; /* whole cache lines: each has one writer */
  MPI_Win_allocate(sides * tile.part * (MPI_Aint)sizeof(double), sizeof(double), MPI_INFO_NULL,
                   tile.comm, &tile.halo, &tile.win);
  return tile;
}

static void free_tile(struct tile* tile) {
  MPI_Win_free(&tile->win);
  MPI_Group_free(&tile->neighbours);
  for (enum side side = north; side < sides; ++side) MPI_Type_free(&tile->edge[side]);
  free(tile->now.cells);
  free(tile->next.cells);
  MPI_Comm_free(&tile->comm);
}

/* ---- the whole plate on one rank ---- */

static long wrong_cells(const struct tile* tile, long rows, long columns, long steps) {
  struct field now = make_field(rows, columns, 0, 0), next = make_field(rows, columns, 0, 0);
  long wrong = 0;
  for (long step = 0; step < steps; ++step) {
    update(&now, &next);
    swap(&now, &next);
  }
  for (long row = 0; row < tile->now.rows; ++row) {
    for (long column = 0; column < tile->now.columns; ++column) {
      const double expected = *at(&now, tile->first_row + row, tile->first_column + column);
      wrong += *at(&tile->now, row, column) != expected;
    }
  }
  free(now.cells);
  free(next.cells);
  return wrong;
}

static long argument(int argc, char** argv, int index, long otherwise) {
  if (argc <= index) return otherwise;
  const long value = atol(argv[index]);
  if (value < 1) die("rows, columns and steps are numbers above 0");
  return value;
}

int main(int argc, char** argv) {
  int rank, ranks, dims[2] = {0, 0};
  double seconds[2] = {0, 0}; /* all, and in the exchange */
  long wrong, sum = 0;
  MPI_Init(&argc, &argv);
  const long rows = argument(argc, argv, 1, 512), columns = argument(argc, argv, 2, 512);
  const long steps = argument(argc, argv, 3, 200);
  struct tile tile = make_tile(rows, columns, dims);
  MPI_Comm_size(tile.comm, &ranks);
  MPI_Comm_rank(tile.comm, &rank);
  MPI_Barrier(tile.comm);
  const double start = MPI_Wtime();
  for (long step = 0; step < steps; ++step) {
    const double before = MPI_Wtime();
    exchange(&tile);
    seconds[1] += MPI_Wtime() - before;
    update(&tile.now, &tile.next);
    swap(&tile.now, &tile.next);
  }
  seconds[0] = MPI_Wtime() - start;
  wrong = wrong_cells(&tile, rows, columns, steps);
  MPI_Allreduce(&wrong, &sum, 1, MPI_LONG, MPI_SUM, tile.comm);
  MPI_Allreduce(MPI_IN_PLACE, seconds, 2, MPI_DOUBLE, MPI_MAX, tile.comm);
  if (rank == 0) {
    printf("halo: %s: %d ranks as %d x %d, %ld x %ld cells, %ld steps: ", sum ? "WRONG" : "ok",
           ranks, dims[0], dims[1], rows, columns, steps);
    printf("%.2f us a step, %.2f of them in the exchange\n", seconds[0] * 1e6 / (double)steps,
           seconds[1] * 1e6 / (double)steps);
  }
  free_tile(&tile);
  MPI_Finalize();
  return sum != 0;
}
