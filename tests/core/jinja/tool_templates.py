# SPDX-License-Identifier: Apache-2.0
"""Chat templates in the shapes of public models' with tools, their calls and results, and reasoning."""

HERMES = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call>" }}
    {{- "<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content\
.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' \
+ content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

BRACKETS = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and \
message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length < 3 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
"""

TYPED = """{%- macro type_of(spec) -%}
{%- if spec.type == 'array' -%}
{{ type_of(spec['items']) if spec['items'] is defined else 'any' }}[]
{%- elif spec.enum is defined -%}
{{ spec.enum | map('tojson') | join(' | ') }}
{%- elif spec.type is iterable and spec.type is not string -%}
{{ spec.type | join(' | ') }}
{%- elif spec.type in ['number', 'integer'] -%}
number{{ ' // default: ' ~ spec.default if spec.default is defined and spec.default is not none }}
{%- elif spec.type == 'object' -%}
{
{%- for name, inner in spec.properties | default({}) | dictsort -%}
{{ name }}{{ '' if name in (spec.required or []) else '?' }}: {{ type_of(inner) }}{{ ', ' if not loop.last }}
{%- endfor -%}
}
{%- else -%}
{{ spec.type | default('any') }}
{%- endif -%}
{%- endmacro -%}
{%- if tools -%}
namespace functions {
{% for tool in tools %}
{%- set function = tool.function or tool %}
// {{ function.description | default('no description', true) | replace('\\n', '\\n// ') }}
type {{ function.name }} = (_: {{ type_of(function.parameters) }}) => any;
{% endfor %}
} // namespace functions
{%- endif %}
{%- for m in messages %}
<|start|>{{ m.role }}{{ ' to=' ~ m.name if m.name }}<|message|>
{%- if m.tool_calls %}
{%- for call in m.tool_calls %}{{ call.function.name }}({% for k, v in call.function.arguments | items %}{{ k }}=\
{{ v | tojson if v is not string else "'%s'" % v }}{{ ', ' if not loop.last }}{% endfor %}){{ '\\n' if not loop.last }}{% endfor %}
{%- elif m.content is none -%}
(none)
{%- else %}{{ m.content }}{% endif -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""

INDENTED = """{% set ns = namespace(system_prompt='', is_first=true, is_tool=false) %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
        {%- if ns.is_first %}
            {%- set ns.system_prompt = ns.system_prompt + message['content'] %}
            {%- set ns.is_first = false %}
        {%- else %}
            {%- set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- set ns.is_tool = false -%}
        {{- '<|User|>' + message['content'] }}
    {%- endif %}
    {%- if message['role'] == 'assistant' and message['tool_calls'] %}
        {%- for tool in message['tool_calls'] %}
            {{- ('<|calls|>' if loop.first else '\\n') + '<|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] \
+ '\\n```json\\n' + tool['function']['arguments'] | tojson(indent=2) + '\\n```<|end|>' }}
        {%- endfor %}
        {{- '<|calls_end|>' + eos_token }}
    {%- elif message['role'] == 'assistant' and message['content'] is not none %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1] %}
        {%- endif %}
        {{- ('<|outputs_end|>' if ns.is_tool else '<|Assistant|>') + content + eos_token }}
        {%- set ns.is_tool = false -%}
    {%- endif %}
    {%- if message['role'] == 'tool' %}
        {{- ('\\n' if ns.is_tool else '<|outputs|>') + '<|out|>' + message['content'] | string + '<|out_end|>' }}
        {%- set ns.is_tool = true -%}
    {%- endif %}
{%- endfor -%}
{%- if ns.is_tool %}{{ '<|outputs_end|>' }}{% endif %}
{%- if add_generation_prompt and not ns.is_tool %}{{ '<|Assistant|><think>\\n' }}{% endif %}"""

TREE = """{%- for tool in tools or [] recursive -%}
{{ '  ' * loop.depth0 }}- {{ tool.name or tool.function.name }} ({{ loop.index }}/{{ loop.length }})
{% if tool.function %}{{ loop([{'name': tool.function.parameters.properties | length ~ ' parameters'}]) }}{% endif -%}
{%- endfor -%}
{%- for group in messages | groupby('role') %}{{ group.grouper }}={{ group.list | length }};{% endfor -%}
{%- with total = messages | map(attribute='content') | select('string') | map('length') | sum %}{{ total }}{% endwith %}"""

TOOLS = {"hermes": HERMES, "headers": HEADERS, "brackets": BRACKETS, "typed": TYPED, "indented": INDENTED, "tree": TREE}
# The same with another JSON style, another way to take white space off, without it, and marked answers.
TOOLS |= {f"{name}, sorted": text.replace("tojson }}", "tojson(sort_keys=true, separators=(',', ':')) }}")
          .replace("tojson(indent=4)", "tojson(indent='\\t', ensure_ascii=true)") for name, text in TOOLS.items()}
TOOLS |= {f"{name}, untrimmed": text.replace("{%- endfor -%}", "{%+ endfor %}").replace("{%- if", "{% if")
          for name, text in TOOLS.items() if "," not in name}
TOOLS |= {f"{name}, plus": text.replace("{{- ", "{{ ").replace("{%- else %}", "{%- else +%}")
          for name, text in TOOLS.items() if "," not in name}
