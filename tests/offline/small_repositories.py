"""Two small repositories that several tests ask about, and what every answer says of itself."""

from __future__ import annotations

NO_MODEL = "No language model was used: this was found by fixed rules that search and read the code."
NO_MODEL_ZH = "没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。"
JAVA = {
    "src/shop/Basket.java": """package shop;

class Basket {
    private final Shelf shelf;

    Basket(Shelf shelf) { this.shelf = shelf; }

    Item pick(String code) {
        if (code.isBlank())
            return null;
        return shelf.take(code);
    }
}
""",
    "src/shop/Shelf.java": "package shop;\n\ninterface Shelf {\n    Item take(String code);\n}\n",
    "src/shop/WoodenShelf.java": """package shop;

class WoodenShelf
        implements Shelf {
    private final java.util.Map<String, Item> items = new java.util.HashMap<>();

    // return null here would be wrong: if (true) return null;
    public Item take(String code) {
        String text = "if (x) { return null; }";
        return locked ? null : items.remove(code);
    }
}
""",
}
PYTHON = {
    "robot/arm.py": '''"""Arms. return None is only text here."""
from robot.joints import (
    bend,
    straighten,
)


class Arm:
    def __init__(self, motor):
        self._motor = motor

    def move(self, angle):
        try:
            power = self._motor.power_for(angle)
        except OverflowError:
            return None
        if not power: return None
        return bend(
            angle,
            power,
        )
''',
    "robot/motor.py": """class Motor:
    def power_for(self, angle):
        table = {1: 2}
        if angle < 0:
            raise ValueError(f"{angle}")
        elif angle == 0:
            pass
        else:
            return table[angle]
""",
    "robot/joints.py": "def bend(angle, power):\n    return power if angle else None\n",
    "other/joints.py": "def bend(x):\n    return None\n",
    "tests/test_arm.py": "def move():\n    return None\n",
}
