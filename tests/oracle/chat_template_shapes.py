# SPDX-License-Identifier: Apache-2.0
"""A chat template in the shape of Qwen's: tools, a default system message, calls, the reasoning of the last answer, and
marks around what the assistant says."""

MARKED = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nthe sky is blue<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {%- if message.reasoning_content and loop.last %}{{ '(' + message.reasoning_content + ')' }}{% endif %}
        {{- message.content }}
        {%- for call in message.tool_calls %}{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}
        {{- '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "sky", "parameters": {"type": "object", "properties": {}}}}]
