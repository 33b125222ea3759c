"""What a screen reader gets of each page: roles, names and their order, from the browser's accessibility tree."""

from collections.abc import Mapping

OPERATE = """
- navigation "Operate":
  - link "Tenants"
  - link "Gateway targets"
  - link "Vectors"
  - link "Audit"
  - link "Settings"
  - link "Doctor"
  - link "Erasure"
"""
#: By page: a part of its tree. What stands between is left out.
HEARD: Mapping[str, str] = {
    "memory": """
- heading "Memory" [level=1]
- table "Memory":
  - rowgroup:
    - row "Bank Belongs to Language Ends"
  - rowgroup:
    - row:
      - cell "default":
        - link "default"
""",
    "bank": """
- navigation "Pages":
  - link "Memory"
- heading "default" [level=1]
- link "Ask this bank"
- navigation "What the bank holds":
  - link "Sessions"
  - link "Units"
  - link "Facts"
- table "Sessions":
  - rowgroup:
    - row "Session Turns Messages Newest turn"
  - rowgroup:
    - row:
      - cell "monday":
        - link "monday"
""",
    "bank?view=units": """
- heading "default" [level=1]
- link /I moved to Ljubljana in May.* message user/:
  - time
""",
    "session": """
- navigation "Pages":
  - link "Memory"
  - link "default"
- heading "monday" [level=1]
- table "Turns":
  - rowgroup:
    - row "Turn Messages Accepted Position"
""",
    "turn": """
- paragraph: Turn
- region "Stages":
  - heading "Stages" [level=2]
  - status: Watching until every stage is done
  - list:
    - listitem: /extraction pending/
- heading "Messages" [level=2]
- article:
  - paragraph:
    - time
    - link "Unit"
  - paragraph: I moved to Ljubljana in May
""",
    "unit": """
- heading "Unit" [level=1]
- paragraph: I moved to Ljubljana in May
- button "Correct"
- button "Pin"
- button "End"
- button "Forget"
- heading "About" [level=2]
- term: Speaker
- definition: user
- term: Session
- definition:
  - link "monday"
- heading "Facts drawn from it" [level=2]
""",
    "people": """
- heading "People" [level=1]
- textbox "A name as it is said"
- combobox "Bank": default
- button "Look"
- heading "Users" [level=2]
""",
    "recall": """
- heading "Recall" [level=1]
- textbox "Question"
- combobox "Bank": default
- textbox "User"
- button "Ask"
- group: Filters and limits
- paragraph:
  - button "Remove the filter Most results"
  - button "Clear filters"
""",
    "answer": """
- term: Tokens
- term: Evidence
- list:
  - listitem:
    - article:
      - paragraph: I moved to Ljubljana in May
      - group:
        - table "Why it ranks here":
          - rowgroup:
            - row "Arm Raw score Weight Adds Rank in it"
- heading "What should have come?" [level=2]
- textbox "Id of the unit"
- button "Find out why"
- heading "What a prompt gets" [level=2]
- heading "Steps" [level=2]
""",
    "now": """
- heading "Now" [level=1]
- term: Health
- definition: ready
- heading "Alerts" [level=2]
- group: "Not judged here: 4"
- heading "The last hour" [level=2]
- figure "Undone rows":
  - list:
    - listitem: /gateway/
- figure "Time a recall takes"
- heading "Queues" [level=2]
- table "Queues":
  - rowgroup:
    - row "Stage pending running unknown dead Oldest undone"
""",
    "work": """
- heading "Work" [level=1]
- navigation "Work":
  - link "Work"
  - link "Dead letters"
- form "Filters":
  - combobox "Status"
  - combobox "Stage"
  - combobox "Tenant"
  - paragraph:
    - link "Remove the filter Tenant"
- button "Count"
- table "Work":
  - rowgroup:
    - row "Status Stage Tenant Attempts Age Last error Do"
""",
    "letters": """
- heading "Dead letters" [level=1]
- form "Filters":
  - combobox "Queue"
  - textbox "Error code"
  - paragraph:
    - link "Remove the filter Queue"
- button "Count"
- table "Dead letters":
  - rowgroup:
    - row "Rejected Queue Message Attempts Reason Do"
  - rowgroup:
    - row:
      - cell "Retry Drop":
        - button "Retry"
        - button "Drop"
""",
    "forget": """
- dialog "Forget this unit":
  - heading "Forget this unit" [level=2]
  - checkbox "Erase it from the log as well, for good"
  - button "Cancel"
  - button "Forget it"
""",
    "operate": f"""
- heading "Tenants" [level=1]{OPERATE}- button "New key"
- table "Tenants":
  - rowgroup:
    - row "Tenant Since Work"
""",
    "tenant": """
- paragraph: Tenant
- heading "Keys" [level=2]
- button "New key"
- table "Keys":
  - rowgroup:
    - row "What it is for Reaches Made Ends State Do"
- heading "Quotas" [level=2]
- table "Quotas":
  - rowgroup:
    - row "Of Turns Bytes Banks Turns a minute Do"
""",
    "targets": f"""
- heading "Gateway targets" [level=1]{OPERATE}- form "Filters":
  - textbox "Tenant"
  - combobox "Unset targets"
- button "Set a target"
""",
    "audit": f"""
- heading "Audit" [level=1]{OPERATE}- form "Filters":
  - textbox "Tenant"
  - combobox "Interface"
  - textbox "Operation"
  - combobox "Within"
  - combobox "Result"
""",
    "settings": f"""
- heading "Settings" [level=1]{OPERATE}- textbox "Name contains"
- checkbox "only those that are not the default"
- table "Settings":
  - rowgroup:
    - row "Setting Value From"
""",
    "doctor": f"""
- heading "Doctor" [level=1]
- button "Check again"{OPERATE}- status: /seen from process/
- list:
  - listitem:
    - paragraph: PostgreSQL version
""",
    "erasure": f"""
- heading "Erasure" [level=1]{OPERATE}- combobox "What to erase"
- combobox "Bank": default
- textbox "Session"
- button "Count what would go"
- heading "Receipt" [level=2]
- textbox "Id of a receipt"
- button "Show"
""",
    "vectors": f"""
- heading "Vectors" [level=1]{OPERATE}- button "Switch to the built model"
- table "Vectors"
""",
}
