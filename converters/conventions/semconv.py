"""The names of the conventions, in one place: the GenAI semantic conventions 1.41 from `opentelemetry.semconv` (its module is
private by its underscore and pinned by a test), the few that the package lacks, and our own under ``spanport.``.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as _g
from opentelemetry.semconv._incubating.attributes import user_attributes as _u
from opentelemetry.semconv.attributes import error_attributes as _e

OPERATION: Final = _g.GEN_AI_OPERATION_NAME
PROVIDER: Final = _g.GEN_AI_PROVIDER_NAME
AGENT_ID: Final = _g.GEN_AI_AGENT_ID
AGENT_NAME: Final = _g.GEN_AI_AGENT_NAME
AGENT_DESCRIPTION: Final = _g.GEN_AI_AGENT_DESCRIPTION
CONVERSATION_ID: Final = _g.GEN_AI_CONVERSATION_ID
WORKFLOW_NAME: Final = _g.GEN_AI_WORKFLOW_NAME
REQUEST_MODEL: Final = _g.GEN_AI_REQUEST_MODEL
REQUEST_STREAM: Final = _g.GEN_AI_REQUEST_STREAM
RESPONSE_MODEL: Final = _g.GEN_AI_RESPONSE_MODEL
RESPONSE_ID: Final = _g.GEN_AI_RESPONSE_ID
FINISH_REASONS: Final = _g.GEN_AI_RESPONSE_FINISH_REASONS
TIME_TO_FIRST_CHUNK: Final = _g.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK
SYSTEM_INSTRUCTIONS: Final = _g.GEN_AI_SYSTEM_INSTRUCTIONS
INPUT_MESSAGES: Final = _g.GEN_AI_INPUT_MESSAGES
OUTPUT_MESSAGES: Final = _g.GEN_AI_OUTPUT_MESSAGES
TOOL_DEFINITIONS: Final = _g.GEN_AI_TOOL_DEFINITIONS
TOOL_NAME: Final = _g.GEN_AI_TOOL_NAME
TOOL_CALL_ID: Final = _g.GEN_AI_TOOL_CALL_ID
TOOL_TYPE: Final = _g.GEN_AI_TOOL_TYPE
TOOL_DESCRIPTION: Final = _g.GEN_AI_TOOL_DESCRIPTION
TOOL_ARGUMENTS: Final = _g.GEN_AI_TOOL_CALL_ARGUMENTS
TOOL_RESULT: Final = _g.GEN_AI_TOOL_CALL_RESULT
USAGE_INPUT: Final = _g.GEN_AI_USAGE_INPUT_TOKENS
USAGE_OUTPUT: Final = _g.GEN_AI_USAGE_OUTPUT_TOKENS
USAGE_CACHE_READ: Final = _g.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS
USAGE_CACHE_CREATION: Final = _g.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS
USAGE_REASONING: Final = _g.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS
EVALUATION_NAME: Final = _g.GEN_AI_EVALUATION_NAME
EVALUATION_VALUE: Final = _g.GEN_AI_EVALUATION_SCORE_VALUE
EVALUATION_LABEL: Final = _g.GEN_AI_EVALUATION_SCORE_LABEL
EVALUATION_EXPLANATION: Final = _g.GEN_AI_EVALUATION_EXPLANATION
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
REQUEST_PREFIX: Final = "gen_ai.request."
ERROR_TYPE: Final = _e.ERROR_TYPE
USER_ID: Final = _u.USER_ID
SESSION_ID: Final = "session.id"

SPAN_KIND: Final = "openinference.span.kind"
INPUT_VALUE: Final = "input.value"
INPUT_MIME_TYPE: Final = "input.mime_type"
OUTPUT_VALUE: Final = "output.value"
OUTPUT_MIME_TYPE: Final = "output.mime_type"
TAGS: Final = "tag.tags"

PREFIX: Final = "spanport."
SCHEMA_URL: Final = {"1.41": "https://opentelemetry.io/schemas/1.41.0", "0.1": ""}
"""The schema URL of each dialect; the release 0.1.0 of the GenAI repository states none that is known, so it stays empty."""
