/* Derived types of every constructor: the layout that libpenstock-mpi-check.so computes for them
 * against what this MPI packs and unpacks. Prints each mistake, then "layouts: N types, M
 * mistakes". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* check_find(void);
const char* check_message(void);
int check_layout(MPI_Datatype type, MPI_Datatype basic, long long* numbers);
int check_gather(MPI_Datatype type, const void* user, long long count, void* packed);
int check_scatter(MPI_Datatype type, const void* packed, void* user, long long count);
int check_basic(MPI_Datatype type, const void* user, long long count, void* array, void* packed,
                void* other_array, void* other_user);
void check_reach(MPI_Datatype type, long long count, long long at, long long* reach);
void check_close(void);

enum {
  size,
  lb,
  extent,
  true_lb,
  true_ub,
  contiguous,
  pieces,
  basic_size,
  basic_extent,
  basic_count,
  is_basic,
  numbers_told
};

#define ROOM (1 << 20)
static unsigned char user[ROOM], other[ROOM], mine[ROOM], theirs[ROOM], array[ROOM], again[ROOM];
static int types, mistakes;

#define EXPECT(condition)                                           \
  do {                                                              \
    if (!(condition)) {                                             \
      printf("%s, %d elements: not %s\n", name, count, #condition); \
      ++mistakes;                                                   \
    }                                                               \
  } while (0)

static void check_count(const char* name, MPI_Datatype type, MPI_Datatype basic, int count,
                        const long long* told) {
  int packed_bytes = 0, position = 0;
  unsigned char* middle = user + ROOM / 2;
  MPI_Pack_size(count, type, MPI_COMM_SELF, &packed_bytes);
  memset(theirs, 0xaa, ROOM);
  memset(mine, 0xaa, ROOM);
  MPI_Pack(middle, count, type, theirs, ROOM, &position, MPI_COMM_SELF);
  EXPECT(check_gather(type, middle, count, mine) == 0);
  EXPECT((long long)position == told[size] * count);
  EXPECT(memcmp(mine, theirs, ROOM) == 0);

  /* Into memory that differs everywhere. */
  memset(other, 0x55, ROOM);
  EXPECT(check_scatter(type, mine, other + ROOM / 2, count) == 0);
  unsigned char* unpacked = array;
  memset(unpacked, 0x55, ROOM);
  position = 0;
  MPI_Unpack(theirs, packed_bytes, &position, unpacked + ROOM / 2, count, type, MPI_COMM_SELF);
  EXPECT(memcmp(other, unpacked, ROOM) == 0);

  long long reach[2] = {0, 0}, low = 0, high = 0;
  for (long long i = ROOM - 1; i >= 0; --i) {
    if (other[i] != 0x55) low = i;
  }
  for (long long i = 0; i < ROOM; ++i) {
    if (other[i] != 0x55) high = i + 1;
  }
  check_reach(type, count, ROOM / 2, reach);
  if (high != 0) EXPECT(reach[0] == low && reach[1] == high);
  if (high == 0) EXPECT(reach[0] == ROOM / 2 && reach[1] == ROOM / 2);

  if (basic == MPI_DATATYPE_NULL) return;
  /* Elements of the basic type one after the other are what the MPI packs of such an array. */
  memset(array, 0x33, ROOM);
  memset(other, 0x55, ROOM);
  memset(mine, 0xaa, ROOM);
  EXPECT(check_basic(type, middle, count, array, mine, again, other + ROOM / 2) == 0);
  EXPECT(memcmp(mine, theirs, ROOM) == 0);
  position = 0;
  memset(again, 0xaa, ROOM);
  MPI_Pack(array, (int)told[basic_count] * count, basic, again, ROOM, &position, MPI_COMM_SELF);
  EXPECT(memcmp(again, theirs, ROOM) == 0);
  position = 0;
  memset(array, 0x55, ROOM);
  MPI_Unpack(theirs, packed_bytes, &position, array + ROOM / 2, count, type, MPI_COMM_SELF);
  EXPECT(memcmp(array, other, ROOM) == 0);
}

/* `basic` is the one predefined type of which all data are, or null. */
static void check(const char* name, MPI_Datatype type, MPI_Datatype basic) {
  const int counts[] = {1, 3, 0, 1};
  int count = 0, type_size = 0;
  long long told[numbers_told];
  MPI_Aint true_low, true_bytes, low, bytes;
  ++types;
  if (check_layout(type, basic, told) != 0) {
    printf("%s: %s\n", name, check_message());
    ++mistakes;
    return;
  }
  MPI_Type_size(type, &type_size);
  MPI_Type_get_extent(type, &low, &bytes);
  MPI_Type_get_true_extent(type, &true_low, &true_bytes);
  EXPECT(told[size] == type_size);
  EXPECT(told[lb] == low);
  EXPECT(told[extent] == bytes);
  if (type_size != 0) EXPECT(told[true_lb] == true_low);
  EXPECT(told[is_basic] == 1);
  if (basic != MPI_DATATYPE_NULL) EXPECT(told[basic_size] * told[basic_count] == told[size]);
  for (int i = 0; i < 4; ++i) check_count(name, type, basic, counts[i], told);
}

static void check_new(const char* name, MPI_Datatype type, MPI_Datatype basic) {
  MPI_Type_commit(&type);
  check(name, type, basic);
  MPI_Type_free(&type);
}

static void named(void) {
  const MPI_Datatype all[] = {MPI_BYTE,      MPI_CHAR,        MPI_SHORT,
                              MPI_INT,       MPI_LONG,        MPI_FLOAT,
                              MPI_DOUBLE,    MPI_LONG_DOUBLE, MPI_C_DOUBLE_COMPLEX,
                              MPI_AINT,      MPI_WCHAR,       MPI_PACKED,
                              MPI_FLOAT_INT, MPI_DOUBLE_INT,  MPI_LONG_INT,
                              MPI_2INT,      MPI_SHORT_INT,   MPI_LONG_DOUBLE_INT};
  for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) {
    char name[64];
    snprintf(name, sizeof name, "predefined %u", i);
    check(name, all[i], all[i]);
  }
}

static MPI_Datatype mixed(void) {
  const int lengths[] = {2, 1, 3};
  const MPI_Aint places[] = {0, 16, 24};
  const MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Datatype type;
  MPI_Type_create_struct(3, lengths, places, parts, &type);
  return type;
}

static void simple(void) {
  MPI_Datatype type, inner, gap;
  const int lengths[] = {2, 0, 3, 1}, places[] = {5, 90, -4, 0};
  const MPI_Aint far[] = {-64, 8, 33, 100};
  MPI_Type_dup(MPI_INT, &type);
  check_new("dup", type, MPI_INT);
  MPI_Type_contiguous(7, MPI_DOUBLE, &type);
  check_new("contiguous", type, MPI_DOUBLE);
  MPI_Type_contiguous(0, MPI_INT, &type);
  check_new("contiguous 0", type, MPI_DATATYPE_NULL);
  MPI_Type_vector(5, 2, 3, MPI_INT, &type);
  check_new("vector", type, MPI_INT);
  MPI_Type_vector(5, 2, -3, MPI_SHORT, &type);
  check_new("vector backwards", type, MPI_SHORT);
  MPI_Type_vector(4, 3, 3, MPI_FLOAT, &type);
  check_new("vector without gaps", type, MPI_FLOAT);
  MPI_Type_vector(0, 2, 3, MPI_INT, &type);
  check_new("vector 0", type, MPI_DATATYPE_NULL);
  MPI_Type_create_hvector(3, 2, 21, MPI_INT, &type);
  check_new("hvector", type, MPI_INT);
  MPI_Type_create_hvector(3, 1, -40, MPI_DOUBLE_INT, &type);
  check_new("hvector of pairs", type, MPI_DOUBLE_INT);
  MPI_Type_indexed(4, lengths, places, MPI_INT, &type);
  check_new("indexed", type, MPI_INT);
  MPI_Type_create_hindexed(4, lengths, far, MPI_LONG, &type);
  check_new("hindexed", type, MPI_LONG);
  MPI_Type_create_indexed_block(4, 2, places, MPI_SHORT_INT, &type);
  check_new("indexed block of pairs", type, MPI_SHORT_INT);
  MPI_Type_create_hindexed_block(4, 1, far, MPI_DOUBLE, &type);
  check_new("hindexed block", type, MPI_DOUBLE);
  check_new("struct", mixed(), MPI_DATATYPE_NULL);
  MPI_Type_create_resized(MPI_INT, -8, 24, &type);
  check_new("resized", type, MPI_INT);
  MPI_Type_create_resized(MPI_LONG, 0, 4, &type);
  check_new("resized, elements overlap", type, MPI_LONG);
  inner = mixed();
  MPI_Type_create_resized(inner, -3, 47, &gap);
  MPI_Type_vector(3, 2, 2, gap, &type);
  MPI_Type_free(&inner);
  MPI_Type_free(&gap);
  check_new("vector of resized struct, inner ones freed", type, MPI_DATATYPE_NULL);
}

static void nested(void) {
  MPI_Datatype a, b, c;
  MPI_Aint places[] = {120, 0, 40};
  const int lengths[] = {1, 2, 1};
  MPI_Type_vector(2, 1, 2, MPI_INT, &a);
  MPI_Type_create_hvector(3, 1, 64, a, &b);
  MPI_Type_indexed(2, (int[]){1, 1}, (int[]){1, 0}, b, &c);
  check_new("indexed of hvector of vector", c, MPI_INT);
  MPI_Type_create_struct(3, lengths, places, (MPI_Datatype[]){a, MPI_INT, a}, &c);
  check_new("struct of one basic type", c, MPI_INT);
  MPI_Type_dup(b, &c);
  check_new("dup of derived", c, MPI_INT);
  MPI_Type_commit(&b);
  check("after its dup was freed", b, MPI_INT);
  MPI_Type_create_struct(0, NULL, NULL, NULL, &c);
  check_new("empty struct", c, MPI_DATATYPE_NULL);
  MPI_Type_contiguous(3, MPI_LONG_DOUBLE_INT, &c);
  check_new("contiguous pairs", c, MPI_LONG_DOUBLE_INT);
  MPI_Type_free(&a);
  MPI_Type_free(&b);
}

static void arrays(void) {
  const int sizes[] = {5, 6, 7}, parts[] = {2, 6, 3}, starts[] = {3, 0, 2};
  MPI_Datatype type, inner;
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  check_new("subarray, C", type, MPI_INT);
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
  check_new("subarray, Fortran", type, MPI_DOUBLE);
  MPI_Type_vector(2, 1, 2, MPI_SHORT, &inner);
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, inner, &type);
  check_new("subarray of vector", type, MPI_SHORT);
  MPI_Type_free(&inner);
}

static void distributed(void) {
  const int sizes[] = {9, 11}, grid[] = {2, 3};
  const int ways[][2] = {{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
                         {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                         {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}};
  const int blocks[][2] = {
      {MPI_DISTRIBUTE_DFLT_DARG, 4}, {2, MPI_DISTRIBUTE_DFLT_DARG}, {MPI_DISTRIBUTE_DFLT_DARG, 2}};
  for (int way = 0; way < 3; ++way) {
    for (int rank = 0; rank < 6; ++rank) {
      for (int fortran = 0; fortran < 2; ++fortran) {
        char name[64];
        MPI_Datatype type;
#ifdef PACKS_CYCLIC_BLOCKS_WRONG
        if (way == 1 && !fortran) continue;
#endif
        snprintf(name, sizeof name, "darray %d, rank %d, Fortran %d", way, rank, fortran);
        MPI_Type_create_darray(6, rank, 2, sizes, ways[way], blocks[way], grid,
                               fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_INT, &type);
        check_new(name, type, MPI_INT);
      }
    }
  }
  const int none[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC}, alone[] = {1, 3};
  const int usual[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  MPI_Datatype type;
  MPI_Type_create_darray(3, 1, 2, sizes, none, usual, alone, MPI_ORDER_C, MPI_DOUBLE_INT, &type);
  check_new("darray, one dimension whole", type, MPI_DOUBLE_INT);
}

static void fortran_kinds(void) {
#ifdef WITH_FORTRAN_TYPES
  MPI_Datatype real, type;
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
  check("f90 real", real, real);
  MPI_Type_vector(3, 1, 2, real, &type);
  check_new("vector of f90 real", type, real);
  MPI_Type_create_f90_integer(9, &real);
  check("f90 integer", real, real);
#endif
}

static void large(void) {
#ifdef WITH_LARGE_COUNTS
  const MPI_Count lengths[] = {2, 0, 3, 1}, places[] = {5, 90, -4, 0}, far[] = {-64, 8, 33, 100};
  const MPI_Count sizes[] = {5, 6, 7}, parts[] = {2, 6, 3}, starts[] = {3, 0, 2};
  MPI_Datatype type;
  MPI_Type_contiguous_c(7, MPI_DOUBLE, &type);
  check_new("contiguous_c", type, MPI_DOUBLE);
  MPI_Type_vector_c(5, 2, -3, MPI_INT, &type);
  check_new("vector_c", type, MPI_INT);
  MPI_Type_create_hvector_c(3, 2, 21, MPI_INT, &type);
  check_new("hvector_c", type, MPI_INT);
  MPI_Type_indexed_c(4, lengths, places, MPI_INT, &type);
  check_new("indexed_c", type, MPI_INT);
  MPI_Type_create_hindexed_c(4, lengths, far, MPI_LONG, &type);
  check_new("hindexed_c", type, MPI_LONG);
  MPI_Type_create_indexed_block_c(4, 2, places, MPI_SHORT_INT, &type);
  check_new("indexed_block_c", type, MPI_SHORT_INT);
  MPI_Type_create_hindexed_block_c(4, 1, far, MPI_DOUBLE, &type);
  check_new("hindexed_block_c", type, MPI_DOUBLE);
  MPI_Type_create_struct_c(2, lengths + 2, far + 1, (MPI_Datatype[]){MPI_CHAR, MPI_LONG}, &type);
  check_new("struct_c", type, MPI_DATATYPE_NULL);
  MPI_Type_create_resized_c(MPI_INT, -8, 24, &type);
  check_new("resized_c", type, MPI_INT);
  MPI_Type_create_subarray_c(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  check_new("subarray_c", type, MPI_INT);
  const MPI_Count whole[] = {9, 11};
  const int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, grid[] = {2, 3};
  const int usual[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  MPI_Type_create_darray_c(6, 4, 2, whole, ways, usual, grid, MPI_ORDER_C, MPI_INT, &type);
  check_new("darray_c", type, MPI_INT);
#endif
}

static void value_and_index(void) {
#ifdef WITH_VALUE_INDEX
  const MPI_Datatype values[] = {MPI_DOUBLE, MPI_FLOAT, MPI_SHORT, MPI_INT8_T, MPI_LONG_DOUBLE};
  const MPI_Datatype indices[] = {MPI_INT, MPI_INT64_T, MPI_INT16_T};
  for (int v = 0; v < 5; ++v) {
    for (int i = 0; i < 3; ++i) {
      char name[64];
      MPI_Datatype pair, type;
      MPI_Type_get_value_index(values[v], indices[i], &pair);
      if (pair == MPI_DATATYPE_NULL) continue;
      snprintf(name, sizeof name, "value %d and index %d", v, i);
      check(name, pair, pair);
      MPI_Type_vector(2, 1, 2, pair, &type);
      check_new(name, type, pair);
    }
  }
#endif
}

/* An operation that takes time by its extent, or by its count, would not end. */
static void huge(void) {
  const char* name = "huge";
  int count = 1;
  long long told[numbers_told];
  MPI_Datatype row, type;
  MPI_Type_create_hvector(2, 1, (MPI_Aint)1 << 40, MPI_INT, &type);
  EXPECT(check_layout(type, MPI_INT, told) == 0 && told[size] == 8 && told[pieces] == 2);
  EXPECT(told[true_ub] == ((long long)1 << 40) + 4);
  MPI_Type_free(&type);
  MPI_Type_contiguous(1 << 30, MPI_INT, &row);
  MPI_Type_contiguous(1 << 20, row, &type);
  EXPECT(check_layout(type, MPI_INT, told) == 0 && told[size] == (long long)1 << 52);
  EXPECT(told[contiguous] == 1 && told[pieces] == 1 && told[basic_count] == (long long)1 << 50);
  MPI_Type_free(&type);
  MPI_Type_free(&row);
  types += 2;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (check_find() == NULL) {
    printf("%s\n", check_message());
    return 1;
  }
  /* No byte of the middle pattern is the filling. */
  for (int i = 0; i < ROOM; ++i) user[i] = (unsigned char)(1 + (i * 7 + i / 251) % 79);
  named();
  simple();
  nested();
  arrays();
  distributed();
  fortran_kinds();
  large();
  value_and_index();
  huge();
  check_close();
  printf("layouts: %d types, %d mistakes\n", types, mistakes);
  MPI_Finalize();
  return mistakes != 0;
}
