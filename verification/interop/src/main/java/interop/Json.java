package interop;

import java.util.List;
import java.util.Map;
import org.yaml.snakeyaml.Yaml;

/** JSON of one line. It is read as YAML, which contains JSON and for which Redisson brings a reader, and written by hand. */
final class Json {
    private Json() {}

    static Map<String, Object> read(String line) {
        return new Yaml().load(line);
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(before);
                quote(String.valueOf(entry.getKey()), out);
                write(entry.getValue(), out.append(':'));
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            out.append('[');
            for (int i = 0; i < list.size(); i++) write(list.get(i), i == 0 ? out : out.append(','));
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }
}
