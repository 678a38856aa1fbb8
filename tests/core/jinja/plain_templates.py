# SPDX-License-Identifier: Apache-2.0
"""Chat templates in the shapes of public models' that write messages and prompts: no tools."""

# What begins and ends a message, by family: (begin, header, behind the header, end, behind the end).
MARKS = {
    "im": ("", "<|im_start|>", "\\n", "<|im_end|>", "\\n"),
    "header": ("{{ bos_token }}", "<|start_header_id|>", "<|end_header_id|>\\n\\n", "<|eot_id|>", ""),
    "turn": ("{{- bos_token }}", "<start_of_turn>", "\\n", "<end_of_turn>", "\\n"),
    "angle": ("", "<|", "|>\\n", "<|end|>", "\\n"),
    "square": ("[gMASK]<sop>", "<|", "|>\\n", "", ""),
}

SIMPLE = """{% for message in messages %}{{'HEAD' + message['role'] + 'AFTER' + message['content'] + 'END' + 'LAST'}}\
{% endfor %}{% if add_generation_prompt %}{{ 'HEADassistantAFTER' }}{% endif %}"""

TRIMMED = """{%- for message in messages %}
    {%- set content = message.content | trim %}
    {%- if loop.first and message.role != 'system' %}
        {{- 'HEADsystemAFTERYou are a helpful assistant.ENDLAST' }}
    {%- endif %}
    {{- 'HEAD' ~ message.role ~ 'AFTER' ~ content ~ 'ENDLAST' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- 'HEADassistantAFTER' }}
{%- endif %}
"""

ALTERNATING = """{% if messages[0]['role'] == 'system' %}
  {% set loop_messages = messages[1:] %}
  {% set system_message = messages[0]['content'] %}
{% else %}
  {% set loop_messages = messages %}
  {% set system_message = false %}
{% endif %}
{% for message in loop_messages %}
  {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {% endif %}
  {% if loop.index0 == 0 and system_message != false %}
    {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
  {% else %}
    {% set content = message['content'] %}
  {% endif %}
  {% if message['role'] == 'user' %}
    {{ 'HEADuserAFTER' + content.strip() + 'END' }}
  {% elif message['role'] == 'assistant' %}
    {{ ' '  + content.strip() + ' ' + eos_token }}
  {% endif %}
{% endfor %}"""

MARKED = """{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
HEADassistantAFTER{% generation %}{{ message.content }}END{% endgeneration %}LAST
{%- else -%}
{{ 'HEAD' + message.role + 'AFTER' }}{{ message.content }}ENDLAST
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}HEADassistantAFTER{%- endif -%}
"""

PARTS = """{{ bos_token }}{% for message in messages %}
{%- if message['content'] is string -%}
{%- set text = message['content'] -%}
{%- elif message['content'] is iterable -%}
{%- set ns = namespace(text='') -%}
{%- for part in message['content'] -%}
{%- if part['type'] == 'text' %}{% set ns.text = ns.text ~ part['text'] %}\
{% elif part['type'] == 'image' %}{% set ns.text = ns.text ~ '<image>' %}{% endif -%}
{%- endfor -%}
{%- set text = ns.text -%}
{%- else -%}
{%- set text = '' -%}
{%- endif -%}
HEAD{{ 'model' if message['role'] == 'assistant' else message['role'] }}AFTER{{ text | trim }}ENDLAST
{%- endfor %}{% if add_generation_prompt %}HEADmodelAFTER{% endif %}"""

SHAPES = {"simple": SIMPLE, "trimmed": TRIMMED, "alternating": ALTERNATING, "marked": MARKED, "parts": PARTS}


def with_marks(shape, family):
    begin, head, after, end, last = MARKS[family]
    for name, mark in (("HEAD", head), ("AFTER", after), ("END", end), ("LAST", last)):
        # Within quotes of the template an escape, elsewhere the character.
        shape = shape.replace(name, mark if "'" + name in shape or name + "'" in shape else mark.replace("\\n", "\n"))
    return begin + shape


SINGLE = {
    "instruct": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
                "{% elif m.role == 'assistant' %}{{ m.content + eos_token + ' ' }}{% else %}"
                "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "sections": "{% for m in messages %}\n{% if m.role == 'system' %}\n{{ m.content }}\n\n{% elif m.role == 'user' %}\n"
                "### Instruction:\n{{ m.content|trim }}\n\n{% else %}\n### Response:\n{{ m.content|trim }}\n\n"
                "{% if not loop.last %}<|end_of_turn|>\n{% endif %}\n{% endif %}\n{% endfor %}\n"
                "{%- if add_generation_prompt %}\n### Response:\n{% endif %}\n",
    "roles": "{% set names = {'user': 'Human', 'assistant': 'Assistant', 'system': 'System'} %}"
             "{% for m in messages %}{{ names.get(m.role, m.role | title) }}: {{ m['content'] }}"
             "{{ '\\n\\n' if not loop.last else '' }}{% endfor %}{{ '\\n\\nAssistant:' if add_generation_prompt }}",
    "dated": "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}\n"
             "{{- '<|start|>system\\nCutting Knowledge Date: December 2023\\nToday Date: ' + date_string + '\\n\\n' }}\n"
             "{%- if messages[0].role == 'system' %}{{- messages[0].content | trim }}{% set messages = messages[1:] %}"
             "{%- endif %}{{ '<|eot|>' }}\n{%- for m in messages %}\n"
             "    {{- '<|start|>' + m.role + '\\n' + m.content|default('', true)|trim + '<|eot|>' }}\n{%- endfor %}",
    "year": "{% set today = strftime_now('%Y-%m-%d') %}{% for m in messages %}<{{ m.role }} day=\"{{ today }}\">"
            "{{ m.content }}</{{ m.role }}>{% endfor %}{# a comment {{ not }} written #}",
    "macro": "{% macro message(role, content, end=eos_token, sign='') %}[{{ role | upper }}]{{ content }}{{ end }}"
             "{% endmacro %}{% for m in messages %}{{ message(m.role, m.content or '', end='' if loop.last else '|') }}"
             "{% endfor %}",
    "caller": "{%- macro block(name) -%}<{{ name }}>{{ caller(name | length) }}</{{ name }}>\n{%- endmacro -%}\n"
              "{%- for m in messages -%}{%- call(size) block(m.role) -%}{{ size }}:{{ m.content }}{%- endcall -%}"
              "{%- endfor -%}",
    "filtered": "{% filter trim | replace('\\n\\n', '\\n') %}{% for m in messages %}\n\n{{ m.content }}\n{% endfor %}"
                "{% endfilter %}{% set all %}{% for m in messages %}{{ m.role[0] }}{% endfor %}{% endset %}({{ all }})",
    "previous": "{% for m in messages %}{% if loop.previtem is not defined or loop.previtem.role != m.role %}"
                "{{ '' if loop.first else '</s>' }}<s>{{ m.role }}: {% endif %}{{ m.content }}"
                "{% if loop.nextitem is defined and loop.nextitem.role == m.role %}\n{% endif %}{% endfor %}</s>",
    "cut": "{% for m in messages %}{% if loop.index > 4 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}"
           "{% endif %}{{ loop.cycle('a', 'b') }}{{ m.content[:10] }}|{{ m.content[::-1][:5] }}|{{ m.content[-3:] }}\n"
           "{% else %}none{% endfor %}",
    "tokens": "{{- bos_token -}}\n{%- for m in messages -%}\n  {%- if m.role not in ['user', 'assistant', 'system', "
              "'tool', 'developer'] -%}\n    {{- raise_exception('Unknown role: ' + m.role) -}}\n  {%- endif -%}\n"
              "  {{- '<' ~ m.role ~ '>' ~ (m.content if m.content is string else m.content | tojson) ~ eos_token -}}\n"
              "{%- endfor -%}\n",
    "first_only": "{% if messages and messages[0].role == 'system' %}{{ messages | map(attribute='content') | first }}\n"
                  "{% endif %}{% for m in messages | rejectattr('role', 'equalto', 'system') | list %}"
                  "{{ loop.index ~ '/' ~ loop.length ~ ' ' ~ m.role ~ ': ' ~ m.content }}\n{% endfor %}",
    "counted": "{%- set counts = namespace(user=0, other=0) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
               "{%- set counts.user = counts.user + 1 -%}{%- else -%}{%- set counts.other = counts.other + 1 -%}"
               "{%- endif -%}#{{ '%02d' % counts.user }}.{{ '{:>3}'.format(counts.other) }} {{ m.content }}\n{%- endfor -%}",
    "listed": "{{ {'messages': messages, 'n': messages|length, 'x': 1.5, 'last': (messages|last)['role']} }}"
              "{{ (messages|map(attribute='role')|list, none, true) }}",
    "lines": "{% for m in messages %}{% for line in (m.content or '').splitlines() if line.strip() %}\n"
             "> {{ line|indent(2) }}{% endfor %}{{ m.content|indent('| ', true) }}\n{% endfor %}",
    "raw": "{% raw %}{{ raw }} {% text %}\n{% endraw %}{%+ if true +%}\n  {{ messages | length }}\n{% endif %}\n"
           "  {#- gone -#}  {% for m in messages %}\n    {{ m.role }}\n  {%- endfor %}\n\n\n",
}

PLAIN = {f"{name}, {family}": with_marks(shape, family) for name, shape in SHAPES.items() for family in MARKS} | SINGLE
