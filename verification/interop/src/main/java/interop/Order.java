package interop;

import java.util.List;
import java.util.Map;

/** One line of input. Times are ms. A number that is left out has the given default. */
record Order(Map<String, Object> fields) {
    Object id() {
        return fields.get("id");
    }

    String what() {
        return text("do", "");
    }

    String name() {
        return text("name", "");
    }

    int thread() {
        return (int) number("thread", 1);
    }

    boolean has(String field) {
        return fields.containsKey(field);
    }

    long number(String field, long otherwise) {
        return fields.get(field) instanceof Number number ? number.longValue() : otherwise;
    }

    String text(String field, String otherwise) {
        return fields.get(field) instanceof String text ? text : otherwise;
    }

    @SuppressWarnings("unchecked")
    List<String> texts(String field) {
        return (List<String>) fields.get(field);
    }
}
