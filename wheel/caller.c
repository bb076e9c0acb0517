/* Calls kernels that were compiled beforehand: the module neardup.machine.made.caller.

   A kernel has overloads: the types of its arguments, the type of its result, and its entry in a shared object, which
   wheel/emit.py made. A call takes the first overload whose types the arguments have, writes them to slots of eight
   bytes in the order in which numba flattens them, and calls the entry without the interpreter lock, unless the kernel
   keeps it. Nothing is converted: what no overload takes is a TypeError.

   Types of arguments are texts: A, the element (a + NumPy's number of the type), the dimensions, w or r (written or only
   read) for an array; ( ) around those of a tuple; a letter for a number. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <dlfcn.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

typedef int (*Entry)(int64_t *slots, void *result, void **error);

typedef struct {
    const char *arguments, *result; /* of the strings that "texts" of the kernel holds */
    Entry entry;
    Py_ssize_t count, slots;
} Overload;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name, *texts, *dict;
    Overload *overloads;
    Py_ssize_t count;
    int locked;
} Kernel;

/* An array that a kernel gets has five slots, and two for each dimension. */
enum { ARRAY_SLOTS = 5, SLOTS_MAX = 640, RESULT_BYTES = 256 };

/* ---- Types of arguments and results ---- */

/* Counts the arguments and the slots of a text; returns 0 if it is none. */
static int measure(const char *text, Py_ssize_t *count, Py_ssize_t *slots) {
    int depth = 0;
    for (*count = *slots = 0; *text; text++) {
        int first = depth == 0;
        if (*text == '(') depth++;
        else if (*text == ')') { if (--depth < 0) return 0; first = 0; }
        else if (*text == 'A') {
            if (!text[1] || text[2] < '0' || text[2] > '9' || (text[3] != 'w' && text[3] != 'r')) return 0;
            *slots += ARRAY_SLOTS + 2 * (text[2] - '0');
            text += 3;
        } else if (strchr("?bBhHiIlLfd", *text)) ++*slots;
        else return 0;
        *count += first;
    }
    return depth == 0;
}

static int is_type(int found, int wanted) {
    return found == wanted || (found == NPY_LONGLONG && wanted == NPY_LONG) || (found == NPY_ULONGLONG && wanted == NPY_ULONG);
}

static int64_t *put_array(const char *text, PyObject *value, int64_t *slots) {
    if (!PyArray_Check(value)) return NULL;
    PyArrayObject *array = (PyArrayObject *)value;
    int dimensions = text[1] - '0';
    int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (text[2] == 'w' ? NPY_ARRAY_WRITEABLE : 0);
    if (!is_type(PyArray_TYPE(array), text[0] - 'a') || PyArray_NDIM(array) != dimensions ||
        !PyArray_CHKFLAGS(array, wanted) || !PyArray_ISNOTSWAPPED(array))
        return NULL;
    *slots++ = 0; /* no owner and no parent: the caller holds the array */
    *slots++ = 0;
    *slots++ = PyArray_SIZE(array);
    *slots++ = PyArray_ITEMSIZE(array);
    *slots++ = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int i = 0; i < dimensions; i++) *slots++ = PyArray_DIM(array, i);
    for (int i = 0; i < dimensions; i++) *slots++ = PyArray_STRIDE(array, i);
    return slots;
}

#define SCALAR(letter, type) \
    case letter: \
        if (!PyArray_IsScalar(value, type)) return 0; \
        memcpy(slot, &PyArrayScalar_VAL(value, type), sizeof PyArrayScalar_VAL(value, type)); \
        return 1;

/* A number of Python is an int64, a float64 or a bool, as numba has it; all others are NumPy's. */
static int put_number(char letter, PyObject *value, int64_t *slot) {
    *slot = 0;
    switch (letter) {
        case 'l':
            if (PyLong_CheckExact(value)) {
                int overflow;
                *slot = PyLong_AsLongLongAndOverflow(value, &overflow);
                return !overflow;
            }
            if (PyArray_IsScalar(value, LongLong)) {
                *slot = PyArrayScalar_VAL(value, LongLong);
                return 1;
            }
            if (!PyArray_IsScalar(value, Int64)) return 0;
            *slot = PyArrayScalar_VAL(value, Int64);
            return 1;
        case 'L':
            if (PyLong_CheckExact(value)) { /* numba's type of a number above those of an int64 */
                int overflow;
                PyLong_AsLongLongAndOverflow(value, &overflow);
                if (overflow <= 0) return 0;
                *slot = (int64_t)PyLong_AsUnsignedLongLong(value);
                if (!PyErr_Occurred()) return 1;
                PyErr_Clear();
                return 0;
            }
            if (PyArray_IsScalar(value, ULongLong)) {
                *slot = (int64_t)PyArrayScalar_VAL(value, ULongLong);
                return 1;
            }
            if (!PyArray_IsScalar(value, UInt64)) return 0;
            *slot = (int64_t)PyArrayScalar_VAL(value, UInt64);
            return 1;
        case 'd': {
            if (!PyFloat_Check(value)) return 0;
            double number = PyFloat_AS_DOUBLE(value);
            memcpy(slot, &number, sizeof number);
            return 1;
        }
        case '?':
            if (PyBool_Check(value)) *slot = value == Py_True;
            else if (PyArray_IsScalar(value, Bool)) *slot = PyArrayScalar_VAL(value, Bool) != 0;
            else return 0;
            return 1;
        SCALAR('b', Int8)
        SCALAR('B', UInt8)
        SCALAR('h', Int16)
        SCALAR('H', UInt16)
        SCALAR('i', Int32)
        SCALAR('I', UInt32)
        SCALAR('f', Float32)
    }
    return 0;
}

/* Writes one argument to the slots; both move on. Returns 0 if it has another type. */
static int put(const char **text, PyObject *value, int64_t **slots) {
    char letter = *(*text)++;
    if (letter == 'A') {
        *slots = put_array(*text, value, *slots);
        *text += 3;
        return *slots != NULL;
    }
    if (letter == '(') {
        if (!PyTuple_Check(value)) return 0;
        Py_ssize_t i = 0, n = PyTuple_GET_SIZE(value);
        for (; **text != ')'; i++)
            if (i >= n || !put(text, PyTuple_GET_ITEM(value, i), slots)) return 0;
        ++*text;
        return i == n;
    }
    return put_number(letter, value, (*slots)++);
}

#define RESULT(letter, type, convert) \
    case letter: { \
        type number; \
        *offset = (*offset + sizeof number - 1) / sizeof number * sizeof number; \
        memcpy(&number, result + *offset, sizeof number); \
        *offset += sizeof number; \
        return convert(number); \
    }

/* Makes an object of a result, which has the layout of a struct of C. */
static PyObject *taken(const char **text, const char *result, size_t *offset) {
    switch (*(*text)++) {
        case 'N': Py_RETURN_NONE;
        RESULT('?', uint8_t, PyBool_FromLong)
        RESULT('b', int8_t, PyLong_FromLong)
        RESULT('B', uint8_t, PyLong_FromLong)
        RESULT('h', int16_t, PyLong_FromLong)
        RESULT('H', uint16_t, PyLong_FromLong)
        RESULT('i', int32_t, PyLong_FromLong)
        RESULT('I', uint32_t, PyLong_FromUnsignedLong)
        RESULT('l', int64_t, PyLong_FromLongLong)
        RESULT('L', uint64_t, PyLong_FromUnsignedLongLong)
        RESULT('f', float, PyFloat_FromDouble)
        RESULT('d', double, PyFloat_FromDouble)
        case '(': {
            PyObject *list = PyList_New(0);
            while (list && **text != ')') {
                PyObject *one = taken(text, result, offset);
                if (!one || PyList_Append(list, one)) Py_CLEAR(list);
                Py_XDECREF(one);
            }
            if (!list) return NULL;
            ++*text;
            PyObject *tuple = PyList_AsTuple(list);
            Py_DECREF(list);
            return tuple;
        }
    }
    return PyErr_Format(PyExc_SystemError, "a result of an unknown type");
}

/* ---- Kernels ---- */

static PyObject *refused(Kernel *kernel, PyObject *const *values, Py_ssize_t count) {
    PyObject *given = PyList_New(0);
    for (Py_ssize_t i = 0; given && i < count; i++) {
        PyObject *one;
        if (PyArray_Check(values[i])) {
            PyArrayObject *array = (PyArrayObject *)values[i];
            one = PyUnicode_FromFormat("%s%S%s[%d]", PyArray_ISWRITEABLE(array) ? "" : "const ", PyArray_DESCR(array),
                                       PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array) ? "" : " (strided)", PyArray_NDIM(array));
        } else one = PyUnicode_FromString(Py_TYPE(values[i])->tp_name);
        if (!one || PyList_Append(given, one)) Py_CLEAR(given);
        Py_XDECREF(one);
    }
    if (given) PyErr_Format(PyExc_TypeError, "%U was not compiled for %S, but for %S", kernel->name, given, kernel->texts);
    Py_XDECREF(given);
    return NULL;
}

static PyObject *call(PyObject *self, PyObject *const *values, size_t flags, PyObject *names) {
    Kernel *kernel = (Kernel *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    int64_t slots[SLOTS_MAX];
    char result[RESULT_BYTES] __attribute__((aligned(16)));
    if (names && PyTuple_GET_SIZE(names)) return PyErr_Format(PyExc_TypeError, "%U takes no named arguments", kernel->name);
    for (Py_ssize_t n = 0; n < kernel->count; n++) {
        Overload *one = &kernel->overloads[n];
        const char *text = one->arguments;
        int64_t *slot = slots;
        Py_ssize_t i = 0;
        if (one->count != count) continue;
        while (i < count && put(&text, values[i], &slot)) i++;
        if (i < count) continue;
        void *error = NULL;
        int status;
        if (kernel->locked) status = one->entry(slots, result, &error);
        else {
            Py_BEGIN_ALLOW_THREADS
            status = one->entry(slots, result, &error);
            Py_END_ALLOW_THREADS
        }
        if (status) return PyErr_Format(PyExc_AssertionError, "%U ended with status %d, as a division by 0 does: report it", kernel->name, status);
        text = one->result;
        size_t offset = 0;
        return taken(&text, result, &offset);
    }
    return refused(kernel, values, count);
}

static int traverse(Kernel *kernel, visitproc visit, void *arg) {
    Py_VISIT(kernel->dict);
    return 0;
}

static int clear(Kernel *kernel) {
    Py_CLEAR(kernel->dict);
    return 0;
}

static void dealloc(Kernel *kernel) {
    PyObject_GC_UnTrack(kernel);
    clear(kernel);
    Py_XDECREF(kernel->name);
    Py_XDECREF(kernel->texts);
    PyMem_Free(kernel->overloads);
    Py_TYPE(kernel)->tp_free(kernel);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Kernel, dict), READONLY, NULL},
    {NULL},
};

static PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, /* its name, its docstring, its function */
    {NULL},
};

static PyTypeObject KernelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "neardup.machine.made.caller.Kernel",
    .tp_doc = "A kernel that was compiled beforehand.",
    .tp_basicsize = sizeof(Kernel),
    .tp_dealloc = (destructor)dealloc,
    .tp_traverse = (traverseproc)traverse,
    .tp_clear = (inquiry)clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Kernel, vectorcall),
    .tp_dictoffset = offsetof(Kernel, dict),
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = members,
    .tp_getset = attributes,
};

/* kernel(library, name, [[arguments, result, entry], ...], locked) */
static PyObject *kernel_of(PyObject *module, PyObject *arguments) {
    PyObject *library, *name, *texts;
    int locked;
    if (!PyArg_ParseTuple(arguments, "OUO!p", &library, &name, &PyList_Type, &texts, &locked)) return NULL;
    void *handle = PyLong_AsVoidPtr(library);
    Kernel *kernel = PyObject_GC_New(Kernel, &KernelType);
    if (PyErr_Occurred() || !kernel) return NULL;
    kernel->vectorcall = call;
    kernel->name = Py_NewRef(name), kernel->texts = Py_NewRef(texts), kernel->dict = NULL;
    kernel->locked = locked, kernel->count = PyList_GET_SIZE(texts);
    kernel->overloads = PyMem_Calloc(kernel->count + 1, sizeof(Overload));
    for (Py_ssize_t i = 0; kernel->overloads && i < kernel->count; i++) {
        Overload *one = &kernel->overloads[i];
        const char *entry;
        PyObject *row = PySequence_Tuple(PyList_GET_ITEM(texts, i));
        int parsed = row && PyArg_ParseTuple(row, "sss", &one->arguments, &one->result, &entry);
        if (parsed && (!measure(one->arguments, &one->count, &one->slots) || one->slots > SLOTS_MAX)) {
            PyErr_Format(PyExc_ImportError, "%U: no types of arguments: %s", name, one->arguments);
            parsed = 0;
        }
        if (parsed && !(one->entry = (Entry)dlsym(handle, entry))) {
            PyErr_Format(PyExc_ImportError, "%U: %s", name, dlerror());
            parsed = 0;
        }
        Py_XDECREF(row); /* the list holds the strings */
        if (!parsed) { Py_DECREF(kernel); return NULL; }
    }
    if (!kernel->overloads) { Py_DECREF(kernel); return PyErr_NoMemory(); }
    PyObject_GC_Track(kernel);
    return (PyObject *)kernel;
}

/* The characters of a string, where they are: kernels that call this hold the interpreter lock. */
static void *characters(PyObject *string, Py_ssize_t *length, int *kind, unsigned *is_ascii, Py_ssize_t *hash) {
    *length = PyUnicode_GET_LENGTH(string), *kind = PyUnicode_KIND(string), *is_ascii = PyUnicode_IS_ASCII(string);
    *hash = -1;
    return PyUnicode_DATA(string);
}

static PyObject *open_library(PyObject *module, PyObject *path) {
    const char *name = PyUnicode_AsUTF8(path);
    void *handle = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ImportError, "%s", dlerror());
    void **reader = dlsym(handle, "neardup_numba_extract_unicode");
    if (reader) *reader = (void *)characters;
    return PyLong_FromVoidPtr(handle);
}

/* The levels that this processor has, the best one first. */
static PyObject *levels(PyObject *module, PyObject *nothing) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return Py_BuildValue("[sss]", "x86-64-v4", "x86-64-v3", "x86-64-v2");
    if (__builtin_cpu_supports("x86-64-v3")) return Py_BuildValue("[ss]", "x86-64-v3", "x86-64-v2");
    if (__builtin_cpu_supports("x86-64-v2")) return Py_BuildValue("[s]", "x86-64-v2");
    return PyList_New(0);
#else
    return Py_BuildValue("[s]", "generic");
#endif
}

static PyMethodDef methods[] = {
    {"kernel", kernel_of, METH_VARARGS, "The kernel of some overloads in an open library."},
    {"open_library", open_library, METH_O, "Open a shared object of kernels."},
    {"levels", levels, METH_NOARGS, "The levels that this processor has, the best one first."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "caller", "Calls kernels that were compiled beforehand.", -1, methods};

PyMODINIT_FUNC PyInit_caller(void) {
    import_array();
    if (PyType_Ready(&KernelType) < 0) return NULL;
    return PyModule_Create(&definition);
}
